package server

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/protection"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// usages starts the controllers of kinds of usages as soon as the kinds exist. It is safe for
// concurrent use.
type usages struct {
	index *protection.Index
	crds  protection.CRDs
	// start starts the controller of a kind.
	start func(schema.GroupVersionKind)
	// servesForeign reports whether kinds of usages that another program has installed are served.
	servesForeign func() bool

	mu      sync.Mutex
	started bool
	served  map[schema.GroupVersionKind]bool
}

func newUsages(k *cluster.Cluster, o Options, servesForeign func() bool) *usages {
	index := protection.NewIndex(k.Hub, k.Kinds, k.Enqueue)
	start := func(kind schema.GroupVersionKind) {
		index.Watch(kind)
		k.Serve(kind, &protection.Reconciler{
			Kind: kind, Index: index, Writer: k.Client, Deleter: k.Client, Refusals: protection.RefusedDeletions{Cluster: k.Client}, Kinds: k.Kinds, Cache: k.Hub,
			Keys:   k.Keys,
			Watch:  func(s watch.Subscriber) protection.Lease { return k.Hub.Begin(s) },
			Events: o.Events, Now: o.Now,
		})
	}
	return &usages{index: index, crds: k.Kinds, start: start, servesForeign: servesForeign, served: map[schema.GroupVersionKind]bool{}}
}

// startServing serves the kinds that exist, and from now on new ones.
func (u *usages) startServing() {
	u.mu.Lock()
	u.started = true
	u.mu.Unlock()
	for _, kind := range usage.Kinds {
		if c, exists := u.crds.CRD(kind.GroupKind()); exists && u.isServed(c) {
			u.serve(kind)
		}
	}
}

// isServed reports whether a kind of usages is served: another program that has installed it may
// serve it, unless this one serves the composition dialect.
func (u *usages) isServed(c *apiextensionsv1.CustomResourceDefinition) bool {
	return !install.IsForeign(c) || u.servesForeign()
}

// serve serves a kind, once.
func (u *usages) serve(kind schema.GroupVersionKind) {
	u.mu.Lock()
	fresh := u.started && !u.served[kind]
	u.served[kind] = u.served[kind] || fresh
	u.mu.Unlock()
	if fresh {
		u.start(kind)
	}
}

// crdChanged serves the kind of a CustomResourceDefinition if it is one of usages.
func (u *usages) crdChanged(c *apiextensionsv1.CustomResourceDefinition) {
	for _, kind := range usage.Kinds {
		if kind.Group == c.Spec.Group && kind.Kind == c.Spec.Names.Kind && u.isServed(c) {
			u.serve(kind)
		}
	}
}
