package expr

import (
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
)

func TestOmitLeavesTheFieldOut(t *testing.T) {
	env := testEnv(t)
	cases := map[string]struct{ doc, want any }{
		"A field":                 {map[string]any{"a": "${omit()}", "b": "x"}, map[string]any{"b": "x"}},
		"A field that has none":   {map[string]any{"a": "${schema.spec.name == 'shop' ? omit() : {'k': 'v'}}"}, map[string]any{}},
		"A field that has one":    {map[string]any{"a": "${schema.spec.name == 'x' ? omit() : {'k': 'v'}}"}, map[string]any{"a": map[string]any{"k": "v"}}},
		"An item":                 {[]any{"a", "${omit()}", "${'b'}"}, []any{"a", "b"}},
		"A key of a map in CEL":   {map[string]any{"a": "${{'x': omit(), 'y': 1}}"}, map[string]any{"a": map[string]any{"y": int64(1)}}},
		"An item of a list there": {map[string]any{"a": "${[1, 2, 3].map(i, i == 2 ? omit() : dyn(i))}"}, map[string]any{"a": []any{int64(1), int64(3)}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template, problems := env.Template(tc.doc, nil, "x")
			if problems != nil {
				t.Fatal(problems.Err())
			}
			got, err := template.Render(worldVars(t))
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Error(diff, err)
			}
		})
	}
}

func TestOmitIsAllowedOnlyInTemplates(t *testing.T) {
	env := testEnv(t)
	_, problems := env.CompileStandalone("${true ? omit() : true}", cel.BoolType, "x")
	if problems == nil || problems.Err().Error() != `x: in "true ? omit() : true" at 1: omit() omits a field of a template and cannot be used here` {
		t.Error(problems.Err())
	}
	template, problems := env.Template(map[string]any{"a": "${omit()}"}, nil, "x")
	if problems != nil || len(template.ForbidOmit()) != 1 {
		t.Error(problems, template)
	}
	if _, problems := env.Conditions([]string{"${omit()}"}, "schema", builtins, "x"); len(problems) != 1 {
		t.Error(problems)
	}
	p, _ := env.Compile(`"a" + omit()`, "x")
	if _, err := p.Eval(nil); err == nil {
		t.Error("something was added to what is omitted")
	}
	text, _ := env.Template("a ${omit()}", nil, "x")
	if _, err := text.Render(nil); err == nil {
		t.Error("what is omitted is a part of a string")
	}
}
