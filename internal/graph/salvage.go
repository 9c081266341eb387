package graph

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// CompileAccepted compiles a definition that was accepted once, and that doesn't compile any more
// because of what its kinds have become: as if one of them were not installed, the first
// in order of use with which it compiles, or else all of them. Its nodes are held back, as
// those of a kind that is missing are, and the others go on. It returns nil for what is
// wrong in itself.
func CompileAccepted(spec *v1alpha1.DefinitionSpec, kinds Kinds) *Graph {
	uses := Uses(spec)
	for _, gvk := range uses {
		if _, known := kinds[gvk]; !known {
			continue
		}
		if g, _ := Compile(spec, without(kinds, gvk)); g != nil {
			return g
		}
	}
	g, _ := Compile(spec, without(kinds, uses...))
	return g
}

func without(kinds Kinds, gone ...schema.GroupVersionKind) Kinds {
	out := maps.Clone(kinds)
	for _, gvk := range gone {
		delete(out, gvk)
	}
	return out
}
