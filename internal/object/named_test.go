package object_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

func TestKindsThatADefinitionNames(t *testing.T) {
	vpc := schema.GroupKind{Group: "net.example.org", Kind: "Vpc"}
	content := map[string]any{"apiVersion": "net.example.org/v1", "kind": "Vpc"}
	cases := map[string]struct {
		definition any
		want       []schema.GroupKind
	}{
		"a template":                      {map[string]any{"resources": []any{map[string]any{"template": content}}}, []schema.GroupKind{vpc}},
		"an external reference":           {map[string]any{"resources": []any{map[string]any{"externalRef": content}}}, []schema.GroupKind{vpc}},
		"the input of a function":         {map[string]any{"pipeline": []any{map[string]any{"input": map[string]any{"resources": []any{map[string]any{"base": content}}}}}}, []schema.GroupKind{vpc}},
		"a text":                          {"{{ range .x }}\n- apiVersion: net.example.org/v1\n  kind: \"Vpc\"\n{{ end }}", []schema.GroupKind{vpc}},
		"a text, kind first":              {"kind: Vpc\napiVersion: net.example.org/v1\n", []schema.GroupKind{vpc}},
		"a text with lines between":       {"kind: Vpc\nmetadata: {}\napiVersion: net.example.org/v1\n", nil},
		"a kind that is not of a catalog": {map[string]any{"apiVersion": "apps/v1", "kind": "Deployment"}, nil},
		"an expression":                   {map[string]any{"apiVersion": "net.example.org/v1", "kind": "${schema.kind}"}, nil},
		"no kind":                         {map[string]any{"apiVersion": "net.example.org/v1"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := object.NamedKinds(tc.definition, func(kind schema.GroupKind) bool { return kind == vpc })
			if diff := cmp.Diff(tc.want, got, cmp.Transformer("set", func(k []schema.GroupKind) map[schema.GroupKind]bool {
				out := map[schema.GroupKind]bool{}
				for _, kind := range k {
					out[kind] = true
				}
				return out
			})); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}
