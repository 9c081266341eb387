package expr

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPublishedSchemas reads what API servers publish and CRDs don't write:
// references behind an allOf of one, quantities without a type.
func TestPublishedSchemas(t *testing.T) {
	s := schemaOf(t, `
type: object
properties:
  metadata:
    allOf: [{type: object, properties: {name: {type: string}}}]
    default: {}
  port: {format: int-or-string, oneOf: [{type: integer}, {type: string}]}
  cpu: {oneOf: [{type: string}, {type: number}]}
  raw: {type: object}
  nullable: {type: [string, "null"]}
  unresolved: {$ref: "#/components/schemas/x"}
`)
	env, err := NewEnv([]Declaration{{Name: "x", Schema: s}}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]string{
		"x.metadata.name":      "a string",
		"x.port":               "anything",
		"x.cpu":                "anything",
		"x.raw":                "a map of anything",
		"x.raw.any":            "anything",
		"x.nullable":           "a string",
		"x.unresolved.y":       "anything",
		"[x.metadata]":         "a list of objects",
		"x.?nullable":          "an optional string",
		"x.metadata.name == 1": "",
	}
	for source, want := range cases {
		t.Run(source, func(t *testing.T) {
			p, problems := env.Compile(source, "")
			got := ""
			if problems == nil {
				got = describe(p.Type())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff, problems)
			}
		})
	}
}
