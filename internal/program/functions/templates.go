package functions

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/functions/answer"
	"github.com/espalier-dev/espalier/internal/composition/functions/gotemplating"
	"github.com/espalier-dev/espalier/internal/composition/functions/patchandtransform"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/functions/graph"
)

// Field is a field that a patch reads or writes.
type Field = patchandtransform.Field

// Template is a composed resource in the input of a built-in function.
type Template struct {
	Name string
	// Path is the place of Object in the input.
	Path object.Path
	// Object is the object before patches, or with expressions; nil if an earlier step produces it.
	Object map[string]any
	// IsGraph: it is a node of a graph.
	IsGraph bool
	// Fields are the fields that its patches read and write.
	Fields []Field
}

// Templates returns the composed resources in the input of a step; none if the function is not built in. An invalid
// input has the ones that can be decoded.
func Templates(function string, input map[string]any) []Template {
	if d := graph.DialectOf(function); d != nil {
		return graphTemplates(d, input)
	}
	var out []Template
	switch function {
	case patchandtransform.Name, patchandtransform.PackageName:
		in, _, _ := patchandtransform.Decode(input)
		for _, t := range in.Templates() {
			out = append(out, Template{Name: t.Name, Path: t.Path.Field("base"), Object: t.Base, Fields: t.Fields})
		}
	}
	return out
}

// ComposesUnseen reports whether a built-in function composes resources that Templates does not find in its input.
func ComposesUnseen(function string) bool {
	return slices.Contains([]string{answer.Name, answer.PackageName, gotemplating.Name, gotemplating.PackageName}, function)
}

func graphTemplates(d *graph.Dialect, input map[string]any) []Template {
	var out []Template
	resources, _, _ := unstructured.NestedSlice(input, strings.Split(string(d.Resources()), ".")...)
	for i, r := range resources {
		resource, _ := r.(map[string]any)
		template, _ := resource["template"].(map[string]any)
		id, _ := resource["id"].(string)
		if template != nil {
			out = append(out, Template{Name: id, Path: d.Resources().Index(i).Field("template"), Object: template, IsGraph: true})
		}
	}
	return out
}

// Sets reports whether a patch sets a field of the composed resource, one in it, or one around it.
func (t Template) Sets(field string) bool {
	for _, f := range t.Fields {
		if f.Writes && !f.OfComposite && (isIn(f.Path, field) || isIn(field, f.Path)) {
			return true
		}
	}
	return false
}

// isIn reports whether a field is another one, or in it. A wildcard is every item.
func isIn(field, outer string) bool {
	if i := strings.Index(outer, "[*]"); i >= 0 {
		outer = outer[:i]
	}
	rest, ok := strings.CutPrefix(field, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// NamespaceOf returns the namespace that a template gives to its object, if no patch or expression sets it.
func NamespaceOf(t Template) string {
	namespace, _, _ := unstructured.NestedString(t.Object, "metadata", "namespace")
	if strings.Contains(namespace, "${") || t.Sets("metadata.namespace") {
		return ""
	}
	return namespace
}
