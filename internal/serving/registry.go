package serving

import (
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/object"
)

// Registry is what is known of all definitions of a dialect. M is what the dialect itself keeps of each between
// reconciles. It is safe for concurrent use.
type Registry[M any] struct {
	mu      sync.Mutex
	entries map[object.Key]*Entry[M]
	make    func() M
}

// Entry is what is kept of one definition. Its fields belong to the reconciles of the definition; what others read of
// them as well is written by Registry.Update.
type Entry[M any] struct {
	Memory M
	needs  Needs
}

// Needs are the kinds whose changes concern a definition.
type Needs struct {
	// Defines are the kinds that it defines: those that it asks for, whether it may have them or not, and those that
	// it has.
	Defines []Kind
	// Uses are the kinds that its resources are of.
	Uses []schema.GroupKind
}

// Kind is a kind that a definition defines. Name is that of the CustomResourceDefinition that it asks for; empty where
// it does not ask for the kind any more.
type Kind struct {
	schema.GroupKind
	Name string
}

// NewRegistry returns an empty registry, whose entries begin with what create returns.
func NewRegistry[M any](create func() M) *Registry[M] {
	return &Registry[M]{entries: map[object.Key]*Entry[M]{}, make: create}
}

// Entry returns what is kept of a definition.
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

// Forget drops what is kept of a definition that is gone.
func (g *Registry[M]) Forget(key object.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.entries, key)
}

// Update changes what others read as well.
func (g *Registry[M]) Update(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// SetDefines notes which kinds a definition defines.
func (g *Registry[M]) SetDefines(e *Entry[M], kinds []Kind) {
	g.Update(func() { e.needs.Defines = kinds })
}

// SetUses notes which kinds a definition uses.
func (g *Registry[M]) SetUses(e *Entry[M], kinds []schema.GroupKind) {
	g.Update(func() { e.needs.Uses = kinds })
}

// Concerned lists, sorted, the definitions that a change of a CustomResourceDefinition concerns: those that use its
// kind, and those that define it or ask for its name.
func (g *Registry[M]) Concerned(c *apiextensionsv1.CustomResourceDefinition) []object.Key {
	gk := crd.GroupKind(c)
	return g.Where(func(_ object.Key, e *Entry[M]) bool {
		return slices.Contains(e.needs.Uses, gk) || slices.ContainsFunc(e.needs.Defines, func(k Kind) bool { return k.GroupKind == gk || k.Name == c.Name })
	})
}

// Defining lists, sorted, the definitions that define a kind; those that define any, for the empty kind.
func (g *Registry[M]) Defining(gk schema.GroupKind) []object.Key {
	return g.Where(func(_ object.Key, e *Entry[M]) bool {
		return gk.Empty() || slices.ContainsFunc(e.needs.Defines, func(k Kind) bool { return k.GroupKind == gk })
	})
}

// Using lists, sorted, the definitions that use kinds of a group.
func (g *Registry[M]) Using(group string) []object.Key {
	return g.Where(func(_ object.Key, e *Entry[M]) bool {
		return slices.ContainsFunc(e.needs.Uses, func(gk schema.GroupKind) bool { return gk.Group == group })
	})
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
