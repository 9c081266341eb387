package graph

import (
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// CompileAccepted compiles a definition that was accepted before and no longer compiles because its kinds have
// changed, or because data of Secrets in outputs is refused now. It accepts the latter. If that is not enough, it
// compiles the definition as if one kind were not installed: the first one, in order of use, whose absence lets it
// compile, or else all kinds. The nodes of such a kind wait, and the others continue. It returns nil if the
// definition is invalid without any kinds.
func CompileAccepted(spec *v1alpha1.DefinitionSpec, kinds Kinds) *Graph {
	if g, _ := Compile(spec, kinds, acceptSecretOutputs); g != nil {
		return g
	}
	uses := UsedKinds(spec)
	for _, gvk := range uses {
		if _, known := kinds[gvk]; !known {
			continue
		}
		if g, _ := Compile(spec, withoutKinds(kinds, gvk), acceptSecretOutputs); g != nil {
			return g
		}
	}
	g, _ := Compile(spec, withoutKinds(kinds, uses...), acceptSecretOutputs)
	return g
}

func withoutKinds(kinds Kinds, gone ...schema.GroupVersionKind) Kinds {
	out := maps.Clone(kinds)
	for _, gvk := range gone {
		delete(out, gvk)
	}
	return out
}
