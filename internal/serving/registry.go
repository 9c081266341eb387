package serving

import (
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

// Registry has the state of all definitions of a dialect between reconciles. M is the dialect's own state of one
// definition. It is safe for concurrent use.
type Registry[M any] struct {
	mu      sync.Mutex
	entries map[object.Key]*Entry[M]
	make    func() M
}

// Entry is the state of one definition. Only the reconciles of the definition access it, except for fields that are
// written in Registry.Update.
type Entry[M any] struct {
	Memory M
	kinds  RelatedKinds
}

// RelatedKinds are the kinds that concern a definition when they change.
type RelatedKinds struct {
	// Defines are the kinds that it requests, even if another definition owns them, and the kinds of the
	// CustomResourceDefinitions that it owns.
	Defines []Kind
	// Uses are the kinds that its resources are of.
	Uses []schema.GroupKind
}

// Kind is a kind that a definition defines. Name is the name of the requested CustomResourceDefinition; empty if the
// definition no longer requests the kind.
type Kind struct {
	schema.GroupKind
	Name string
}

// NewRegistry returns an empty registry. Create returns the initial state of a definition.
func NewRegistry[M any](create func() M) *Registry[M] {
	return &Registry[M]{entries: map[object.Key]*Entry[M]{}, make: create}
}

// Entry returns the state of a definition.
func (g *Registry[M]) Entry(key object.Key) *Entry[M] {
	g.mu.Lock()
	defer g.mu.Unlock()
	e, ok := g.entries[key]
	if !ok {
		e = &Entry[M]{Memory: g.make()}
		g.entries[key] = e
	}
	return e
}

// Forget removes the state of a definition that is gone.
func (g *Registry[M]) Forget(key object.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.entries, key)
}

// Update changes fields that Where reads.
func (g *Registry[M]) Update(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// SetDefines records which kinds a definition defines.
func (g *Registry[M]) SetDefines(e *Entry[M], kinds []Kind) {
	g.Update(func() { e.kinds.Defines = kinds })
}

// SetUses records which kinds a definition uses.
func (g *Registry[M]) SetUses(e *Entry[M], kinds []schema.GroupKind) {
	g.Update(func() { e.kinds.Uses = kinds })
}

// Concerned lists, sorted, the definitions that a change of a CustomResourceDefinition concerns: those that use its
// kind, and those that define it or request its name.
func (g *Registry[M]) Concerned(c *apiextensionsv1.CustomResourceDefinition) []object.Key {
	gk := crd.GroupKind(c)
	return g.Where(func(_ object.Key, e *Entry[M]) bool {
		return slices.Contains(e.kinds.Uses, gk) || slices.ContainsFunc(e.kinds.Defines, func(k Kind) bool { return k.GroupKind == gk || k.Name == c.Name })
	})
}

// Defining lists, sorted, the definitions that define a kind; those that define any, for the empty kind.
func (g *Registry[M]) Defining(gk schema.GroupKind) []object.Key {
	return g.Where(func(_ object.Key, e *Entry[M]) bool {
		return gk.Empty() || slices.ContainsFunc(e.kinds.Defines, func(k Kind) bool { return k.GroupKind == gk })
	})
}

// InGroup lists, sorted, the definitions that use or define kinds of a group.
func (g *Registry[M]) InGroup(group string) []object.Key {
	return g.Where(func(_ object.Key, e *Entry[M]) bool {
		return slices.ContainsFunc(e.kinds.Uses, func(gk schema.GroupKind) bool { return gk.Group == group }) ||
			slices.ContainsFunc(e.kinds.Defines, func(k Kind) bool { return k.Group == group })
	})
}

// InNamespace lists, sorted, the definitions of a namespace.
func (g *Registry[M]) InNamespace(namespace string) []object.Key {
	return g.Where(func(key object.Key, _ *Entry[M]) bool { return key.Namespace == namespace })
}

// Keys lists, sorted, all definitions.
func (g *Registry[M]) Keys() []object.Key {
	return g.Where(func(object.Key, *Entry[M]) bool { return true })
}

// Where lists, sorted, the definitions that match. Match may read what Update writes and must not block.
func (g *Registry[M]) Where(match func(object.Key, *Entry[M]) bool) []object.Key {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []object.Key
	for key, e := range g.entries {
		if match(key, e) {
			out = append(out, key)
		}
	}
	slices.SortFunc(out, object.Key.Compare)
	return out
}
