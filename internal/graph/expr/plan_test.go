package expr

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// TestPlansEvaluateAsProgramsOfCEL compares values, errors and costs.
func TestPlansEvaluateAsProgramsOfCEL(t *testing.T) {
	env, err := NewEnv([]Declaration{{Name: "a"}}, Limits{Cost: 300})
	if err != nil {
		t.Fatal(err)
	}
	a := map[string]any{"text": "one two", "list": []any{int64(3), int64(1), int64(2)}, "none": nil}
	for _, source := range []string{
		`"x" + a.text`,
		`a.text.split(" ").map(x, x.size())`,
		`a.text.indexOf("two") + a.text.charAt(1).size()`,
		`a.list.sort()`,
		`a.list.slice(0, 2)`,
		`a.list.exists(x, x == 2) && !("three" in a.text.split(" "))`,
		`a.text.find("[a-z]+") + string(1)`,
		`a.text.matches("^one")`,
		`a.?missing.orValue("") + a.?text.or(optional.none()).value()`,
		`lists.range(100).map(x, lists.range(100).map(y, x * y)).size()`, // exceeds the limit
		`a.list[7] + 1`, // fails
		`a.list[a.list[0]] + a.list[0] * a.list.filter(x, x > 1)[0]`,
		`a.list[a.list[1] - 1] + a.list.filter(x, x > 1)[1] * 2`,
		`has(a.list) && a.list[5] == 2`,
		`int(a.text) == 1`, // fails
		`a.none == null ? dyn(1) : a.missing`,
		`{"a": a.list, "b": [a.text]}`,
	} {
		t.Run(source, func(t *testing.T) {
			checked, issues := env.cel.Compile(source)
			if issues.Err() != nil {
				t.Fatal(issues.Err())
			}
			limit := env.limits.Cost
			want, err := env.planner.Program(checked, append(costOptions(limit), cel.EvalOptions(cel.OptOptimize))...)
			if err != nil {
				t.Fatal(err)
			}
			c := &collector{isDeclared: env.declares}
			c.visit(checked.NativeRep().Expr(), nil, nil)
			planned, err := plan(env.planner, checked.NativeRep(), limit, c.decorate)
			if err != nil {
				t.Fatal(err)
			}
			evaluator, err := evaluatorWith(limit)
			if err != nil {
				t.Fatal(err)
			}
			vars := activation{scope: env.Scope, vars: map[string]any{"a": a}}
			wantValue, wantDetails, wantErr := want.Eval(vars)
			vars.planned = planned
			value, details, err := evaluator.Eval(vars)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) || reflect.TypeOf(err) != reflect.TypeOf(wantErr) {
				t.Errorf("error %v, want %v", err, wantErr)
			}
			if got, want := *details.ActualCost(), *wantDetails.ActualCost(); got != want || want == 0 {
				t.Errorf("cost %d, want %d", got, want)
			}
			if wantErr == nil && types.Equal(value, wantValue) != types.True {
				t.Errorf("value %v, want %v", value, wantValue)
			}
		})
	}
}

// TestProgramsDoNotKeepTheTableOfFunctions measures programs that call functions.
func TestProgramsDoNotKeepTheTableOfFunctions(t *testing.T) {
	const programs, budget = 200, 6 << 10
	env, err := NewEnv([]Declaration{{Name: "a"}}, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	kept := make([]*Program, programs)
	compile := func(i int) {
		p, problems := env.Compile(fmt.Sprintf(`a.?text.orValue("") + string(%d)`, i), "spec")
		if p == nil {
			t.Fatal(problems)
		}
		kept[i] = p
	}
	compile(0) // makes what all programs share
	before := heap()
	for i := 1; i < programs; i++ {
		compile(i)
	}
	each := (heap() - before) / (programs - 1)
	runtime.KeepAlive(kept)
	t.Logf("a program takes %d bytes", each)
	if each > budget {
		t.Errorf("more than the budget of %d", budget)
	}
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
