package definition

import (
	"slices"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/serving"
)

// Registry holds the state of all definitions. It is safe for concurrent use.
type Registry struct {
	*serving.Registry[*memory]
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{serving.NewRegistry(func() *memory { return &memory{} })}
}

// memory is the state of one definition between reconciles. Only its reconcile uses it.
type memory struct {
	validated validation
	// good is the definition that its composite kind was last published for; goodDigest is its
	// digest.
	good             *v1.CompositeResourceDefinition
	goodDigest       string
	composite, claim running
}

type running struct {
	serving.Running
	reconciler InstanceReconciler
	// snapshotDigest is of the reconciler's last snapshot.
	snapshotDigest string
	// migration rewrites objects that may be stored in a former referenceable version; nil for none.
	migration *serving.Migration
}

// Concerned lists, sorted, the definitions that a change of a CustomResourceDefinition
// affects: the one that controls it, and those that define its kind or its name.
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
