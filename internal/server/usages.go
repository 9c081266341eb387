package server

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/manager/cluster"
	"github.com/espalier-dev/espalier/internal/protection"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// usages starts the controllers of kinds of usages as soon as the kinds exist. It is safe for
// concurrent use.
type usages struct {
	index *protection.Index
	crds  protection.CRDs
	// start starts the controller of a kind.
	start func(schema.GroupVersionKind)
	// beside reports whether kinds of usages that another program has installed are served.
	beside func() bool

	mu     sync.Mutex
	begun  bool
	served map[schema.GroupVersionKind]bool
}

func newUsages(k *cluster.Cluster, o Options, beside func() bool) *usages {
	index := protection.NewIndex(k.Hub, k.Kinds, k.Enqueue)
	start := func(kind schema.GroupVersionKind) {
		index.Watch(kind)
		k.Serve(kind, &protection.Reconciler{
			Kind: kind, Index: index, Writer: k.Client, Deleter: k.Client, Kinds: k.Kinds, Cache: k.Hub,
			Watch:  func(s watch.Subscriber) protection.Lease { return k.Hub.Begin(s) },
			Events: o.Events, Now: o.Now,
		})
	}
	return &usages{index: index, crds: k.Kinds, start: start, beside: beside, served: map[schema.GroupVersionKind]bool{}}
}

// begin serves the kinds that exist, and from now on new ones.
func (u *usages) begin() {
	u.mu.Lock()
	u.begun = true
	u.mu.Unlock()
	for _, kind := range usage.Kinds {
		if c, exists := u.crds.CRD(kind.GroupKind()); exists && u.ours(c) {
			u.serve(kind)
		}
	}
}

// ours reports whether a kind of usages is served: another program that has installed it may
// serve it, unless this one serves the composition dialect.
func (u *usages) ours(c *apiextensionsv1.CustomResourceDefinition) bool {
	return !install.IsForeign(c) || u.beside()
}

// serve serves a kind, once.
func (u *usages) serve(kind schema.GroupVersionKind) {
	u.mu.Lock()
	fresh := u.begun && !u.served[kind]
	u.served[kind] = u.served[kind] || fresh
	u.mu.Unlock()
	if fresh {
		u.start(kind)
	}
}

// appeared serves the kind of a CustomResourceDefinition if it is one of usages.
func (u *usages) appeared(c *apiextensionsv1.CustomResourceDefinition) {
	for _, kind := range usage.Kinds {
		if kind.Group == c.Spec.Group && kind.Kind == c.Spec.Names.Kind && u.ours(c) {
			u.serve(kind)
		}
	}
}
