package expr

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// TestProgramsEvaluateAsThoseOfCEL compares values, errors and costs with a program without our decorators.
func TestProgramsEvaluateAsThoseOfCEL(t *testing.T) {
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
			program, err := programOf(env.planner, checked.NativeRep(), limit, c.decorate)
			if err != nil {
				t.Fatal(err)
			}
			vars := activation{scope: env.Scope, vars: map[string]any{"a": a}}
			wantValue, wantDetails, wantErr := want.Eval(vars)
			value, details, err := program.Eval(vars)
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
