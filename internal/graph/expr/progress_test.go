package expr_test

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/graph/expr"
)

func TestObjectsSayHowFarTheyAre(t *testing.T) {
	env, err := expr.NewEnv([]expr.Declaration{{Name: "o"}, {Name: "list", List: true}}, expr.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	object := func(name string) map[string]any {
		return map[string]any{"name": name, "inner": map[string]any{"name": "inner"}}
	}
	vars := map[string]any{"o": object("ready"), "list": []any{object("ready"), object("updated"), object("both"), object("neither")}}
	progress := func(o map[string]any) (ready, updated, known bool) {
		switch o["name"] {
		case "inner":
			return true, true, false
		case "both":
			return true, true, true
		}
		return o["name"] == "ready", o["name"] == "updated", true
	}
	const unknown = "is only known of an object of a resource"
	for _, tc := range []struct {
		source  string
		want    any
		problem string
	}{
		{"o.ready()", true, ""},
		{"o.updated()", false, ""},
		{"list.filter(o, o.ready()).size() == 2 && list.filter(o, o.updated()).map(o, o.name) == ['updated', 'both']", true, ""},
		{"list.exists_one(o, o.ready() && o.updated())", true, ""},
		{"list[0].ready() && cel.bind(o, list[3], !o.ready())", true, ""},
		{"o.inner.ready()", nil, unknown},
		{"o.name.updated()", nil, unknown}, // its type is not known before
	} {
		p, problems := env.WithProgress().Compile(tc.source, "at")
		if problems != nil {
			t.Errorf("%s: %v", tc.source, problems.Err())
			continue
		}
		budget := expr.NewBudget(func() error { return nil }, 1e6, 0, 1e6)
		budget.SetProgress(progress)
		got, err := p.EvalWithin(budget, vars)
		if got != tc.want || (err != nil) != (tc.problem != "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
			t.Errorf("%s: got %v, %v", tc.source, got, err)
		}
		if _, err := p.Eval(vars); err == nil {
			t.Errorf("%s has a value without the progress of objects", tc.source)
		}
		if _, problems := env.Compile(tc.source, "at"); problems == nil {
			t.Errorf("%s compiles where no progress is known", tc.source)
		}
	}
}
