package definition

import (
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestARevisionIsNotSentWithAFieldThatIsNotStored takes each field of revisions out of their schema: the API server would refuse
// the revision at each reconcile, or store another one than was sent.
func TestARevisionIsNotSentWithAFieldThatIsNotStored(t *testing.T) {
	own := ownCRDs()[RevisionKind.GroupKind()]
	tried := 0
	for _, path := range fieldsBelow(own.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"], []string{"spec"}) {
		tried++
		lacking := own.DeepCopy()
		removeField(lacking.Spec.Versions[0].Schema.OpenAPIV3Schema, path)
		o := &unstructured.Unstructured{Object: map[string]any{"spec": sample(own.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])}}
		o.SetGroupVersionKind(RevisionKind)
		problem := withoutUnstored(o, lacking, 1)
		_, hasAccount, _ := unstructured.NestedString(o.Object, "spec", "account")
		switch at := strings.Join(path, "."); at {
		case "spec.account":
			if problem.reason != "" || hasAccount {
				t.Errorf("without %s: %s, and it is sent: %t", at, problem.message, hasAccount)
			}
		default:
			if problem.reason != revisionNotKept || !strings.Contains(problem.message, path[len(path)-1]) || !hasAccount {
				t.Errorf("without %s: %q", at, problem.message)
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d fields were tried", tried)
	}
}

// below is the schema of what a schema of a list or map has.
func below(s *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		return below(s.Items.Schema)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return below(s.AdditionalProperties.Schema)
	}
	return s
}

// fieldsBelow are the paths of all fields of a schema; those of items and values are fields of the list or map.
func fieldsBelow(s apiextensionsv1.JSONSchemaProps, at []string) (out [][]string) {
	fields := below(&s).Properties
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		path := append(slices.Clone(at), name)
		out = append(append(out, path), fieldsBelow(fields[name], path)...)
	}
	return out
}

// removeField removes the field with a path from a schema.
func removeField(s *apiextensionsv1.JSONSchemaProps, path []string) {
	s = below(s)
	if len(path) == 1 {
		delete(s.Properties, path[0])
		return
	}
	field := s.Properties[path[0]]
	removeField(&field, path[1:])
	s.Properties[path[0]] = field
}

// sample is a value of a schema with all of its fields.
func sample(s apiextensionsv1.JSONSchemaProps) any {
	switch {
	case s.Items != nil && s.Items.Schema != nil:
		return []any{sample(*s.Items.Schema)}
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return map[string]any{"key": sample(*s.AdditionalProperties.Schema)}
	case s.Type == "integer":
		return int64(1)
	case s.Type == "boolean":
		return true
	case s.Type == "object":
		out := map[string]any{}
		for name, field := range s.Properties {
			out[name] = sample(field)
		}
		return out
	}
	return "text"
}
