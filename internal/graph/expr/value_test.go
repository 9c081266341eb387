package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// valued returns an environment in which x is what a document renders.
func valued(t *testing.T, text string) (*Env, *Template) {
	t.Helper()
	s := schemaOf(t, "{type: object, properties: {name: {type: string}, port: {x-kubernetes-int-or-string: true}, at: {type: string, format: date-time}, sizes: {type: object, additionalProperties: {type: integer}}, any: {x-kubernetes-preserve-unknown-fields: true}}}")
	env, err := NewEnv([]Declaration{{Name: "schema", Schema: s}}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	template, problems := env.Template(document(t, text), nil, "value")
	if problems != nil {
		t.Fatal(problems.Err())
	}
	env, err = env.With(Declaration{Name: "x", Value: template})
	if err != nil {
		t.Fatal(err)
	}
	return env, template
}

func TestVariablesAreTypedByTheirParts(t *testing.T) {
	cases := map[string]struct{ value, source, want string }{
		"A text is one":                               {"abc", "x", "a string"},
		"A text with an expression is one":            {"a-${schema.name}", "x", "a string"},
		"An expression has its own type":              {"${size(schema.name)}", "x", "an integer"},
		"A number and a truth are what they are":      {"{a: 1, b: true, c: 1.5}", "[x.a == 1, x.b, x.c < 2.0]", "a list of booleans"},
		"A field has its type":                        {"{a: {b: \"${schema.sizes}\"}}", "x.a.b", "a map of integers"},
		"Items that are alike have that type":         {"[{a: x}, {a: \"${schema.name}\"}]", "x.map(i, i.a)", "a list of strings"},
		"Items that aren't can be anything":           {"[1, a]", "x[0]", "anything"},
		"Null can be anything":                        {"{a: null}", "x.a", "anything"},
		"What isn't typed stays so":                   {"${schema.any.b.c}", "x.d", "anything"},
		"Keys that can't be names make a map":         {"{app.kubernetes.io/name: x, b: z}", "x['app.kubernetes.io/name']", "a string"},
		"A map of different values has any":           {"{a/b: x, c: 1}", "x['c']", "anything"},
		"An empty object is a map":                    {"{}", "x['c']", "anything"},
		"What is made alike is of one type":           {"[{a: x, b: 1}, {b: 2, a: \"${schema.name}\"}]", "x[0] == x[1]", "a boolean"},
		"A number that can be a text stays both":      {"${schema.port}", "[x, 'y']", "a list of anything"},
		"A time is one, as one of its schema is":      {"{at: \"${schema.at}\"}", "x.at - duration('1h')", "a google.protobuf.Timestamp"},
		"A field that isn't there is a problem":       {"{prefix: a}", "x.prefx", `undefined field 'prefx' in x; did you mean "prefix"?`},
		"A word of CEL is a field all the same":       {"{namespace: a}", "x.namespace + 'b'", "a string"},
		"It may be escaped as Kubernetes does":        {"{namespace: a}", "x.__namespace__ + 'b'", "a string"},
		"A map of an expression has computed keys":    {"\"${{'a': 1}}\"", "x[schema.name]", "an integer"},
		"An object that is written has none":          {"{a: 1}", "x[schema.name]", "an object has no computed keys"},
		"A list of an expression has items with type": {"${[schema.name].map(n, {'n': n})}", "x[0].n + 'y'", "a string"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env, _ := valued(t, tc.value)
			p, problems := env.Compile(tc.source, "")
			if problems != nil {
				if !strings.Contains(problems.Err().Error(), tc.want) {
					t.Errorf("want %q, got %v", tc.want, problems.Err())
				}
				return
			}
			if diff := cmp.Diff(tc.want, describe(p.Type())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestInferredSchemasAreBounded doubles a value forty times.
func TestInferredSchemasAreBounded(t *testing.T) {
	env, _ := valued(t, "{a: b}")
	vars := map[string]any{"schema": map[string]any{}, "x": map[string]any{"a": strings.Repeat("b", 100)}}
	last := "x"
	size := 1 << 16
	var failed error
	for i := range 40 {
		next := fmt.Sprint("x", i)
		template, problems := env.Template(map[string]any{"l": "${" + last + "}", "r": "${" + last + "}"}, nil, "value")
		if problems != nil {
			t.Fatal(problems.Err())
		}
		var err error
		if env, err = env.With(Declaration{Name: next, Value: template}); err != nil {
			t.Fatal(err)
		}
		if failed == nil {
			value, used, err := template.RenderWithLimit(nil, vars, size)
			failed, vars[next], size = err, value, size-used
		}
		last = next
	}
	var large *TooLarge
	if !errors.As(failed, &large) {
		t.Errorf("it was stopped by %v", failed)
	}
	status, problems := env.Template(map[string]any{"all": "${" + last + "}"}, nil, "status")
	if problems != nil {
		t.Fatal(problems.Err())
	}
	if n := strings.Count(fmt.Sprint(status.Schema()), "XPreserveUnknownFields"); n > 100*maxInferredFields {
		t.Errorf("the schema has %d fields", n)
	}
}

func TestReferencedNames(t *testing.T) {
	env, _ := valued(t, "x")
	doc := document(t, "{a: \"${one.b + two['c']}\", b: [\"${[1].map(three, three)}\", \"x ${four} ${\"], c: \"${five +}\", d: \"${cel.bind(six, one, six.x)}\"}")
	got := env.ReferencedNames(doc, func(name string) bool {
		return slices.Contains([]string{"one", "two", "three", "four", "five", "six"}, name)
	})
	if diff := cmp.Diff([]string{"one", "two"}, got); diff != "" {
		t.Error(diff)
	}
}
