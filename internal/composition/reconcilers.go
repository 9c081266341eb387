package composition

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/claim"
	"github.com/espalier-dev/espalier/internal/composition/composite"
	"github.com/espalier-dev/espalier/internal/composition/definition"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
)

// reconcilers makes the reconcilers of composites and claims: the instance engine with the
// dialect of each.
type reconcilers struct {
	cluster *cluster.Cluster
	Options

	mu         sync.Mutex
	composites map[definition.InstanceReconciler]*composite.Reconciler
}

func (k *reconcilers) Composite(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, enqueueDefinition func()) definition.InstanceReconciler {
	served := composite.NewReconciler(k.reconciler(d, kind, enqueueDefinition, object.CompositeDialect,
		composite.Dialect{Layout: xrd.LayoutOf(d.ScopeOrDefault())}), k.Runner)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.composites == nil {
		k.composites = map[definition.InstanceReconciler]*composite.Reconciler{}
	}
	k.composites[served] = served
	return served
}

func (k *reconcilers) Stopped(served definition.InstanceReconciler) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.composites, served)
}

// functionChanged enqueues all composites with compositions that call a function, with low
// priority.
func (k *reconcilers) functionChanged(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, served := range k.composites {
		if !served.CallsFunction(name) {
			continue
		}
		enqueueAll(k.cluster, served.Kind)
	}
}

// enqueueAll uses a low priority.
func enqueueAll(k *cluster.Cluster, kind schema.GroupVersionKind) {
	for _, key := range k.Hub.Keys(kind) {
		k.Engine.Enqueue(watch.Subscriber{Key: key}, watch.Cause{Priority: watch.Background})
	}
}

func (k *reconcilers) Claim(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, enqueueDefinition func()) definition.InstanceReconciler {
	return &claim.Reconciler{Reconciler: k.reconciler(d, kind, enqueueDefinition, object.ClaimDialect, claim.Dialect{Composite: d.CompositeKind()})}
}

func (k *reconcilers) reconciler(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, enqueueDefinition func(), words object.Dialect,
	dialect instance.Dialect) *instance.Reconciler {
	return &instance.Reconciler{
		Kind: kind, Definition: object.Definition{Name: d.Name, UID: d.UID, Dialect: words}, Dialect: dialect,
		Cluster: k.cluster.Client, Children: k.cluster.Hub, Lease: instance.Leases(k.cluster.Hub), Instances: k.cluster.Hub, Kinds: k.cluster.Kinds, Events: k.Events,
		Version: k.Version, Keys: k.cluster.Keys, Now: k.Now, EnqueueDefinition: enqueueDefinition, Usages: k.Usages, Layers: k.Layers, Limits: k.Limits,
		Decided: k.Decided,
	}
}
