package expr

import (
	"strings"
	"testing"
)

// TestAssigning puts expressions into the fields of a schema. The reason is a
// part of the diagnostic, empty when there should be none.
func TestAssigning(t *testing.T) {
	target := schemaOf(t, `
type: object
properties:
  text: {type: string}
  moment: {type: string, format: date-time}
  span: {type: string, format: duration}
  data: {type: string, format: byte}
  whole: {type: integer}
  real: {type: number}
  either: {x-kubernetes-int-or-string: true}
  amount: {oneOf: [{type: string}, {type: number}]}
  "yes": {type: boolean}
  any: {x-kubernetes-preserve-unknown-fields: true}
  texts: {type: array, items: {type: string}}
  labels: {type: object, additionalProperties: {type: string}}
  amounts: {type: object, additionalProperties: {oneOf: [{type: string}, {type: number}]}}
  subnet: {type: object, properties: {id: {type: string}, zone: {type: string}, size: {type: integer}, more: {type: string}}}
  narrow: {type: object, properties: {id: {type: string}}}
  narrows: {type: array, items: {type: object, properties: {id: {type: string}}}}
  open: {type: object, properties: {id: {type: string}}, x-kubernetes-preserve-unknown-fields: true}
  numbers: {type: object, properties: {a: {type: integer}}}
  subnets: {type: array, items: {type: object, properties: {id: {type: string}, zone: {type: string}, size: {type: number}}}}
`)
	cases := map[string]struct{ field, expr, reason string }{
		"a string":                               {"text", `schema.spec.name`, ""},
		"an optional string":                     {"text", `schema.spec.?name`, ""},
		"an optional integer":                    {"text", `schema.spec.?replicas`, "is an integer; expected a string; use string(…)"},
		"null":                                   {"text", `null`, ""},
		"what isn't typed":                       {"text", `raw.x`, ""},
		"an integer for a string":                {"text", `schema.spec.replicas`, "use string(…)"},
		"a function's result for an integer":     {"whole", `string(1)`, `in "string(1)" at 1`},
		"a timestamp for a string":               {"text", `schema.metadata.creationTimestamp`, ""},
		"a string for a timestamp":               {"moment", `schema.spec.name`, ""},
		"a computed timestamp":                   {"moment", `schema.metadata.creationTimestamp + duration("1h")`, ""},
		"a duration":                             {"span", `schema.spec.every`, ""},
		"a secret for a secret":                  {"data", `secret.data.password`, ""},
		"base64 for a secret":                    {"data", `base64.encode(b"x")`, ""},
		"a secret for a string":                  {"text", `secret.data.password`, "base64.encode(…)"},
		"a number for an integer":                {"whole", `schema.spec.ratio`, "is a number; expected an integer"},
		"an integer for a number":                {"real", `schema.spec.replicas`, ""},
		"an unsigned integer for an integer":     {"whole", `3u`, ""},
		"an integer or a string: integer":        {"either", `schema.spec.replicas`, ""},
		"an integer or a string: string":         {"either", `schema.spec.name`, ""},
		"an integer or a string: itself":         {"either", `schema.spec.port`, ""},
		"an integer or a string: boolean":        {"either", `schema.spec.enabled`, "expected an integer or a string"},
		"a quantity":                             {"amount", `quantity("1")`, ""},
		"a quantity as a number":                 {"amount", `schema.spec.ratio`, ""},
		"a quantity as a boolean":                {"amount", `schema.spec.enabled`, "expected a quantity"},
		"a quantity for a string":                {"text", `quantity("1")`, ""},
		"a string for a boolean":                 {"yes", `schema.spec.name`, "expected a boolean"},
		"anything for anything":                  {"any", `vpc.status`, ""},
		"a list":                                 {"texts", `schema.spec.tags`, ""},
		"a list of others":                       {"texts", `vpc.status.subnets.map(s, s.size)`, "is a list of integers; expected a list of strings"},
		"an empty list":                          {"texts", `[]`, ""},
		"a list for a string":                    {"text", `schema.spec.tags`, "is a list of strings"},
		"a map":                                  {"labels", `schema.spec.env`, ""},
		"an empty map":                           {"labels", `{}`, ""},
		"a map of others":                        {"labels", `{"a": 1}`, "is an integer; expected a string"},
		"a map whose keys aren't strings":        {"labels", `{1: "a"}`, "the key is not a string"},
		"a computed map whose keys aren't":       {"labels", `schema.spec.tags.transformMap(i, v, v)`, "keys are integers"},
		"a map of strings for quantities":        {"amounts", `schema.spec.env`, ""},
		"an object for a map":                    {"labels", `vpc.spec`, ""},
		"an object with others for a map":        {"labels", `vpc.status.subnets[0]`, `the field "size" has a kind mismatch`},
		"an object for a larger one":             {"subnet", `vpc.status.subnets[0]`, ""},
		"an object for a smaller one":            {"narrow", `vpc.status.subnets[0]`, `has a field "size" that doesn't belong here`},
		"an object for an open one":              {"open", `vpc.status.subnets[0]`, ""},
		"a written object for a larger one":      {"subnet", `{"id": "a", "size": 3}`, ""},
		"a written object for a smaller one":     {"narrow", `{"id": "a", "size": 3}`, `no field "size"`},
		"a map of which no value fits an object": {"numbers", `schema.spec.env`, "is a map of strings; expected an object"},
		"a map of which a value fits an object":  {"narrow", `schema.spec.env`, ""},
		"a list of objects":                      {"subnets", `vpc.status.subnets`, ""},
		"a list of other objects":                {"narrows", `vpc.status.subnets`, `of its items, kind mismatch: the expression has a field "size" that doesn't belong here`},
		"a filtered list of objects":             {"subnets", `vpc.status.subnets.filter(s, s.size > 1)`, ""},
		"branches are checked by themselves":     {"subnet", `schema.spec.enabled ? {"id": "a"} : {"idd": "b"}`, `no field "idd"`},
	}
	env := testEnv(t)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems := env.Template(map[string]any{c.field: "${" + c.expr + "}"}, target, "")
			got := ""
			if err := problems.Err(); err != nil {
				got = err.Error()
			}
			if (c.reason == "") != (got == "") || !strings.Contains(got, c.reason) {
				t.Errorf("want %q, got %q", c.reason, got)
			}
		})
	}
}
