package schema

import (
	"maps"
	"slices"
	"strings"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// FromSimpleSchema converts the SimpleSchema of a kind (its spec, its status, and the types of
// both) to the schema of the kind's objects, as a CustomResourceDefinition has it. It
// ignores other fields.
func FromSimpleSchema(kind map[string]any) (*extv1.JSONSchemaProps, diag.List) {
	var problems diag.List
	part := func(name string) map[string]any {
		fields, ok := kind[name].(map[string]any)
		if !ok && kind[name] != nil {
			problems.Addf(object.Path(name), "is not an object")
		}
		return fields
	}
	root := &extv1.JSONSchemaProps{Type: "object", Properties: map[string]extv1.JSONSchemaProps{
		"apiVersion": {Type: "string"}, "kind": {Type: "string"}, "metadata": {Type: "object"},
	}}
	o := Options{Types: part("types"), TypesPath: "types"}
	for _, name := range []string{"spec", "status"} {
		fields := part(name)
		if kind[name] == nil {
			continue
		}
		s, more := Parse(fields, object.Path(name), o)
		for _, d := range more {
			if !slices.Contains(problems, d) { // problems of types are returned with both parts
				problems.Add(d)
			}
		}
		root.Properties[name] = *s
	}
	if len(root.Properties) == 3 {
		problems.Addf("", "has neither spec nor status, only: %s", strings.Join(slices.Sorted(maps.Keys(kind)), ", "))
	}
	return root, problems.Sorted()
}
