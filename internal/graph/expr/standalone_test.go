package expr

import (
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
)

func TestConditions(t *testing.T) {
	env := testEnv(t)
	cases := map[string]struct{ text, want string }{
		"a boolean":                   {"${schema.spec.enabled}", ""},
		"an optional boolean":         {"${schema.spec.?enabled}", ""},
		"something untyped":           {"${raw.x}", ""},
		"newlines inside":             {"${\n  schema.spec.enabled\n}", ""},
		"a newline at the end":        {"${schema.spec.enabled}\n", `x: the text is not a single expression; expected "${", an expression and "}", without a trailing newline`},
		"text without an expression":  {"true", `x: the text is not a single expression; expected "${", an expression and "}", without a trailing newline`},
		"a string":                    {"${schema.spec.name}", `x: in "schema.spec.name" at 1: the expression is a string; expected a boolean`},
		"an expression with an error": {"${schema.spec.enable}", `x: in "schema.spec.enable" at 13: undefined field 'enable' in schema.spec; did you mean "enabled"?`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, problems := env.CompileStandalone(c.text, cel.BoolType, "x")
			got := ""
			if err := problems.Err(); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(c.want, got); diff != "" || (p == nil) != (c.want != "") {
				t.Error(diff)
			}
		})
	}
}
