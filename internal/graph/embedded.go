package graph

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Embedded configures a graph that runs inside a host, such as a composition function: the
// graph does not define the kind of its instances, and the host writes its objects. The
// host chooses names and namespaces that the templates leave open, knows the scope of each
// kind, and alone writes the conditions of an instance's status. It identifies an item of
// a collection by its ID, and passes the existing objects in plan.Facts.Owned.
type Embedded struct {
	// Instance is the schema of the instances; nil if it is unknown.
	Instance *spec.Schema
	// Ready says why the object of a node without readyWhen is not ready; empty if it is.
	Ready func(*unstructured.Unstructured) (why string)
}

// CompileEmbedded is Compile for an embedded graph. It uses only the status of the spec's
// schema. Data of Secrets in outputs is listed and never refused: a pipeline has no last good
// graph to continue with.
func CompileEmbedded(spec *v1alpha1.DefinitionSpec, kinds Kinds, embedded Embedded) (*Graph, diag.List) {
	return compile(withPlaceholderKind(spec), kinds, Graph{embedded: &embedded}, []Option{acceptSecretOutputs})
}

// UsedKindsOfEmbedded is UsedKinds for an embedded graph.
func UsedKindsOfEmbedded(spec *v1alpha1.DefinitionSpec) []schema.GroupVersionKind {
	return uses(withPlaceholderKind(spec), Graph{embedded: &Embedded{}})
}

// withPlaceholderKind returns the spec of an embedded graph with a kind, which passes the
// checks of names and has no other meaning.
func withPlaceholderKind(spec *v1alpha1.DefinitionSpec) *v1alpha1.DefinitionSpec {
	out := *spec
	out.Schema = &v1alpha1.Schema{Kind: "Composite", APIVersion: "v1", Group: "composite"}
	if spec.Schema != nil {
		out.Schema.Status = spec.Schema.Status
	}
	return &out
}

// instanceSchema is the schema of the part of the instance that the expressions of an embedded graph may read.
func (g *Embedded) instanceSchema() *spec.Schema {
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

// matchesRenderedName reports whether an observed object has the name and the namespace that the template renders, as
// far as it renders them. The host identifies an object by its node only, so the object is another one after the
// template changed the name.
func matchesRenderedName(rendered, observed *unstructured.Unstructured) bool {
	other := func(wanted, is string) bool { return wanted != "" && wanted != is }
	return observed != nil && !other(rendered.GetName(), observed.GetName()) && !other(rendered.GetNamespace(), observed.GetNamespace())
}
