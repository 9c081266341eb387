package graph

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Embedded is what a graph has to know that is a part of something else: its instances are
// of a kind that it doesn't define, and somebody else writes its objects. Names and
// namespaces that its templates leave open are for him to choose; in which scope a kind
// lives is his to know; and of an instance's status only the conditions are his alone. He
// knows an item of a collection by its ID, and its objects by those in plan.Facts.Owned.
type Embedded struct {
	// Instance is the schema of the instances; nil if nobody tells.
	Instance *spec.Schema
	// Ready says why an object isn't ready whose node has no readyWhen; empty if it is.
	Ready func(*unstructured.Unstructured) (why string)
}

// CompileEmbedded is Compile for a guest. Of the spec's schema the status counts alone.
func CompileEmbedded(spec *v1alpha1.DefinitionSpec, kinds Kinds, guest Embedded) (*Graph, diag.List) {
	return compile(hosted(spec), kinds, &guest)
}

// UsesOfEmbedded is Uses for a guest.
func UsesOfEmbedded(spec *v1alpha1.DefinitionSpec) []schema.GroupVersionKind {
	return uses(hosted(spec), &Embedded{})
}

// hosted is the spec of a guest with a kind, whose names mean nothing.
func hosted(spec *v1alpha1.DefinitionSpec) *v1alpha1.DefinitionSpec {
	out := *spec
	out.Schema = &v1alpha1.Schema{Kind: "Composite", APIVersion: "v1", Group: "composite"}
	if spec.Schema != nil {
		out.Schema.Status = spec.Schema.Status
	}
	return &out
}

// instance is what a guest's expressions may read of the instance.
func (g *Embedded) instance() *spec.Schema {
	if g.Instance == nil {
		return nil
	}
	fields, ok := g.Instance.Properties["spec"]
	if !ok {
		return nil
	}
	return &spec.Schema{SchemaProps: spec.SchemaProps{
		Type:       spec.StringOrArray{"object"},
		Properties: map[string]spec.Schema{"spec": fields},
	}}
}

// same says whether an observed object is the one that a guest's node renders, which its
// host knows by the node alone: it is another if the template has come to say so.
func same(rendered, observed *unstructured.Unstructured) bool {
	other := func(wanted, is string) bool { return wanted != "" && wanted != is }
	return observed != nil && !other(rendered.GetName(), observed.GetName()) && !other(rendered.GetNamespace(), observed.GetNamespace())
}
