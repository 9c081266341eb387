package server

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/controller/protection"
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/kernel"
	"github.com/espalier-dev/espalier/internal/usage"
)

// usages serves the kinds of usages that there are, from when they come: without them
// nothing is watched.
type usages struct {
	kernel  *kernel.Kernel
	options Options
	book    *protection.Book
	// beside says that kinds of usages which another program has installed are served.
	beside func() bool

	mu     sync.Mutex
	begun  bool
	served map[schema.GroupVersionKind]bool
}

func newUsages(k *kernel.Kernel, o Options, beside func() bool) *usages {
	return &usages{kernel: k, options: o, beside: beside, book: protection.NewBook(k.Hub, k.Kinds, k.Wake), served: map[schema.GroupVersionKind]bool{}}
}

// begin serves the kinds that there are, and from now on those that come.
func (u *usages) begin() {
	u.mu.Lock()
	u.begun = true
	u.mu.Unlock()
	for _, kind := range usage.Kinds {
		if c, exists := u.kernel.Kinds.CRD(kind.GroupKind()); exists && u.ours(c) {
			u.serve(kind)
		}
	}
}

// ours says whether a kind of usages is ours to serve: another program that has installed
// it may be serving it, beside the composition dialect.
func (u *usages) ours(c *apiextensionsv1.CustomResourceDefinition) bool {
	return !crd.IsForeign(c) || u.beside()
}

// serve serves a kind, once.
func (u *usages) serve(kind schema.GroupVersionKind) {
	u.mu.Lock()
	fresh := u.begun && !u.served[kind]
	u.served[kind] = u.served[kind] || fresh
	u.mu.Unlock()
	if !fresh {
		return
	}
	u.book.Open(kind)
	u.kernel.Serve(kind, &protection.Reconciler{
		Kind: kind, Book: u.book, Cluster: u.kernel.Client, Kinds: u.kernel.Kinds, Hub: u.kernel.Hub,
		Events: u.options.Events, Now: u.options.Now,
	})
}

// appeared serves a kind of usages from now on.
func (u *usages) appeared(c *apiextensionsv1.CustomResourceDefinition) {
	for _, kind := range usage.Kinds {
		if kind.Group == c.Spec.Group && kind.Kind == c.Spec.Names.Kind && u.ours(c) {
			u.serve(kind)
		}
	}
}
