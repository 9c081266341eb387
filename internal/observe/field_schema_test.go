package observe_test

import (
	"encoding/json"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
)

func TestFieldsThatASchemaDoesNotHave(t *testing.T) {
	const text = `{"type": "object", "properties": {
		"metadata": {"allOf": [{"type": "object", "properties": {"name": {"type": "string"}, "labels": {"additionalProperties": {"type": "string"}}}}]},
		"spec": {"type": "object", "properties": {
			"replicas": {"type": "integer"},
			"ports": {"type": "array", "items": {"type": "object", "properties": {"port": {"type": "integer"}}}},
			"any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			"empty": {"type": "object"},
			"choice": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}}}}`
	schema := &spec.Schema{}
	if err := json.Unmarshal([]byte(text), schema); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ field, want string }{
		"A field":                               {"spec.replicas", ""},
		"A field below a list":                  {"spec.ports[3].port", ""},
		"A key of a map":                        {"metadata.labels.app", ""},
		"Any field, where unknown ones stay":    {"spec.any.thing.below", ""},
		"Any field of an object without fields": {"spec.empty.thing", ""},
		"Any field of one of several types":     {"spec.choice.thing", ""},
		"A field with a typing error":           {"spec.replica", `there is no field spec.replica in WebApp; did you mean "spec.replicas"?`},
		"A field that resembles none":           {"spec.nope", "there is no field spec.nope in WebApp"},
		"A field below one that is missing":     {"spc.replicas", `there is no field spc in WebApp; did you mean "spec"?`},
		"A field of a list's items":             {"spec.ports[0].prt", `there is no field spec.ports[0].prt in WebApp; did you mean "spec.ports[0].port"?`},
		"A field of a referenced schema":        {"metadata.nam", `there is no field metadata.nam in WebApp; did you mean "metadata.name"?`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := observe.CheckField("WebApp", schema, object.Path(tc.field)); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
