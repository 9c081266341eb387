package expr

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConditionsThatWereTaken(t *testing.T) {
	env, vars := testEnv(t), worldVars(t)
	cases := map[string]struct {
		expr string
		want []Branch
	}{
		"none":                      {`vpc.status.id + "?"`, nil},
		"one that is true":          {`schema.spec.index == 1 ? "a" : "b"`, []Branch{{Condition: "schema.spec.index == 1", True: true}}},
		"one that is false":         {`schema.spec.index == 9 ? "a" : "b"`, []Branch{{Condition: "schema.spec.index == 9", False: true}}},
		"one in a branch not taken": {`schema.spec.index == 1 ? "a" : (schema.spec.index == 2 ? "b" : "c")`, []Branch{{Condition: "schema.spec.index == 1", True: true}, {Condition: "schema.spec.index == 2"}}},
		"one in a branch taken":     {`schema.spec.index == 2 ? "a" : schema.spec.index == 1 ? "b" : "c"`, []Branch{{Condition: "schema.spec.index == 2", False: true}, {Condition: "schema.spec.index == 1", True: true}}},
		"for each item":             {`[1, 2].map(i, i > 1 ? "a" : "b")`, []Branch{{Condition: "i > 1", True: true, False: true}}},
		"a path":                    {`raw.flag ? "a" : "b"`, []Branch{{Condition: "raw.flag"}}},
		"one that is absent":        {`vpc.status.privateSubnet2ID == "x" ? "a" : "b"`, []Branch{{Condition: `vpc.status.privateSubnet2ID == "x"`}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p, problems := env.Compile(c.expr, "at")
			if len(problems) > 0 {
				t.Fatal(problems.Err())
			}
			var branches Branches
			budget := NewBudget(func() error { return nil }, 1<<20, 0, 1<<20)
			budget.Record(&branches)
			value, err := p.EvalWithin(budget, vars)
			if without, failed := p.Eval(vars); !cmp.Equal(value, without) || (err == nil) != (failed == nil) {
				t.Errorf("recorded it is %v, %v; else %v, %v", value, err, without, failed)
			}
			for i := range c.want {
				c.want[i].At = "at"
			}
			if diff := cmp.Diff(c.want, branches.List()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestBranchesOfSeveralEvaluationsAreJoined(t *testing.T) {
	env := testEnv(t)
	p, problems := env.Compile(`raw.on ? "a" : "b"`, "at")
	if len(problems) > 0 {
		t.Fatal(problems.Err())
	}
	var branches Branches
	budget := NewBudget(func() error { return nil }, 1<<20, 0, 1<<20)
	budget.Record(&branches)
	for _, on := range []bool{true, false} {
		if _, err := p.EvalWithin(budget, map[string]any{"raw": map[string]any{"on": on}}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]Branch{{At: "at", Condition: "raw.on", True: true, False: true}}, branches.List()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
