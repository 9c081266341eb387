package composition

import (
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/claim"
	"github.com/espalier-dev/espalier/internal/composition/composite"
	"github.com/espalier-dev/espalier/internal/composition/establish"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/manager/kernel"
	"github.com/espalier-dev/espalier/internal/object"
)

// kinds makes what serves composites and claims: the instance engine in their dialects.
type kinds struct {
	kernel *kernel.Kernel
	Options

	mu sync.Mutex
	// composites are what serves each composite kind.
	composites map[schema.GroupKind]*composite.Served
}

func (k *kinds) Composite(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) establish.Served {
	served := &composite.Served{Reconciler: k.reconciler(d, kind, wake, object.CompositeDialect, composite.Dialect{Places: xrd.PlacesOf(d.ScopeOrDefault())}), Runner: k.Runner}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.composites == nil {
		k.composites = map[schema.GroupKind]*composite.Served{}
	}
	k.composites[kind.GroupKind()] = served
	return served
}

// functionChanged asks for a pass over all composites that a function composes, when there
// is nothing more urgent. What isn't served any more nobody looks at.
func (k *kinds) functionChanged(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, served := range k.composites {
		if !served.Calls(name) {
			continue
		}
		for _, o := range k.kernel.Hub.Select(served.Kind, "", labels.Everything()) {
			k.kernel.Engine.Enqueue(watch.Subscriber{Key: object.KeyOf(o)}, watch.Cause{Priority: watch.Background})
		}
	}
}

func (k *kinds) Claim(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) establish.Served {
	return &claim.Served{Reconciler: k.reconciler(d, kind, wake, object.ClaimDialect, claim.Dialect{Composite: d.CompositeKind()})}
}

func (k *kinds) reconciler(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func(), words object.Dialect, dialect instance.Dialect) *instance.Reconciler {
	return &instance.Reconciler{
		Kind: kind, Definition: object.Definition{Name: d.Name, UID: d.UID, Dialect: words}, Dialect: dialect,
		Cluster: k.kernel.Client, Children: k.kernel.Hub, Lease: instance.Leases(k.kernel.Hub), Instances: k.kernel.Hub, Kinds: k.kernel.Kinds, Events: k.Events,
		Version: k.Version, Now: k.Now, Wake: wake, Usages: k.Usages, Layers: k.Layers,
	}
}
