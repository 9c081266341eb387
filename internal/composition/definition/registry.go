package definition

import (
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving"
)

// Registry is what is known of all definitions. It is safe for concurrent use.
type Registry struct {
	*serving.Registry[*memory]
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{serving.NewRegistry(func() *memory { return &memory{} })}
}

// memory is what is kept of one definition between reconciles, to which it belongs.
type memory struct {
	validated validation
	// good is the definition as its composite kind was last published for; goodMark tells
	// that apart from what it was before.
	good             *v1.CompositeResourceDefinition
	goodMark         string
	composite, claim running
}

// running is what serves one of a definition's kinds.
type running struct {
	serving.Running
	served Served
	// compositionsMark tells apart what served was last given.
	compositionsMark string
}

// Concerned lists, sorted, the definitions that a change of a CustomResourceDefinition
// concerns: the one that controls it, and those that want its kind or its name.
func (g *Registry) Concerned(c *extv1.CustomResourceDefinition) []object.Key {
	out := g.Registry.Concerned(c)
	if name, owned := ownerOf(c); owned {
		for _, key := range g.Where(func(key object.Key, _ *serving.Entry[*memory]) bool { return key.Name == name }) {
			if !slices.Contains(out, key) {
				out = append(out, key)
			}
		}
		slices.SortFunc(out, object.Key.Compare)
	}
	return out
}
