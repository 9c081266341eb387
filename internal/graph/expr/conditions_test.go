package expr

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var builtins = []string{"Ready", "ResourcesReady"}

func TestConditionsEval(t *testing.T) {
	env := testEnv(t)
	withInstance := func(vars map[string]any) map[string]any {
		vars["schema"] = map[string]any{"spec": map[string]any{"name": "shop"}, "status": map[string]any{"conditions": []any{
			map[string]any{"type": "ResourcesReady", "status": "False", "reason": "NotReady", "message": "db is not ready"},
		}}}
		return vars
	}
	cases := map[string]struct {
		source string
		want   []Condition
	}{
		"Names need no quotes":              {`runtime.newCondition({type: 'A', status: 'True', reason: 'R', message: 'M'})`, []Condition{{"A", "True", "R", "M"}}},
		"And may have some":                 {`runtime.newCondition({'type': 'A', "status": 'True'})`, []Condition{{"A", "True", "", ""}}},
		"Fields are expressions":            {`runtime.newCondition({type: schema.spec.name, status: 1 > 2 ? 'True' : 'False'})`, []Condition{{"shop", "False", "", ""}}},
		"A list makes several":              {`[1, 2].map(i, runtime.newCondition({type: 'N' + string(i), status: 'Unknown'}))`, []Condition{{"N1", "Unknown", "", ""}, {"N2", "Unknown", "", ""}}},
		"An empty list makes none":          {`[1].filter(i, i > 1).map(i, runtime.newCondition({type: 'N', status: 'True'}))`, nil},
		"The engine's own can be read":      {`runtime.newCondition({type: 'Ready', status: runtime.condition(schema, 'ResourcesReady').status, message: runtime.condition(schema, 'ResourcesReady').message})`, []Condition{{"Ready", "False", "", "db is not ready"}}},
		"A condition that isn't there":      {`runtime.newCondition({type: 'A' + runtime.condition(vpc, 'Nothing').status, status: 'True'})`, []Condition{{"A", "True", "", ""}}},
		"A computed look-up that finds one": {`runtime.newCondition({type: 'X', status: runtime.condition(schema, 'Resources' + 'Ready').status})`, []Condition{{"X", "False", "", ""}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, problems := env.Conditions([]string{"${" + tc.source + "}"}, "schema", builtins, "at")
			if problems != nil {
				t.Fatal(problems.Err())
			}
			got, missing := c.Eval(nil, withInstance(worldVars(t)))
			if diff := cmp.Diff(tc.want, got); diff != "" || missing != nil {
				t.Error(diff, missing)
			}
		})
	}
}

func TestConditionsWithoutAValue(t *testing.T) {
	c, problems := testEnv(t).Conditions([]string{
		`${runtime.newCondition({type: 'Pending', status: vpc.status.id == '' ? 'True' : 'False'})}`,
		`${runtime.newCondition({type: 'Failed', status: schema.spec.name})}`,
		`${runtime.newCondition({type: 'Fine', status: 'True'})}`,
	}, "schema", builtins, "at")
	if problems != nil {
		t.Fatal(problems.Err())
	}
	found, missing := c.Eval(nil, map[string]any{"schema": map[string]any{"spec": map[string]any{"name": "maybe"}}})
	if diff := cmp.Diff([]Condition{{"Fine", "True", "", ""}}, found); diff != "" {
		t.Error(diff)
	}
	var pending *Pending
	var failure *Failure
	if len(missing) != 2 || !errors.As(missing[0], &pending) || !errors.As(missing[1], &failure) {
		t.Fatal(missing)
	}
	if want := `at[1]: "runtime.newCondition({type: 'Failed', status: schema.spec.name})": the status of a condition is "maybe"; a status must be one of True, False or Unknown`; failure.Error() != want {
		t.Error(failure)
	}
	if diff := cmp.Diff([]string{"Failed", "Fine", "Pending"}, c.Types()); diff != "" {
		t.Error(diff)
	}
}

func TestABuiltinConditionCanBeReadWhereItIsReplaced(t *testing.T) {
	env := testEnv(t)
	_, problems := env.Conditions([]string{
		`${runtime.newCondition({type: 'ResourcesReady', status: 'True'})}`,
		`${runtime.newCondition({type: 'Derived', status: runtime.condition(schema, 'ResourcesReady').status})}`,
	}, "schema", builtins, "at")
	if problems != nil {
		t.Error(problems.Err())
	}
}

func TestInvalidConditions(t *testing.T) {
	env := testEnv(t)
	cases := map[string]struct {
		sources []string
		want    string
	}{
		"No condition":             {[]string{`${"text"}`}, `at[0]: in "\"text\"" at 1: the expression is a string; expected a condition from runtime.newCondition, or a list of them`},
		"A map like one":           {[]string{`${{'type': 'A', 'status': 'True'}}`}, `at[0]: in "{'type': 'A', 'status': 'True'}" at 1: the expression is a map of strings; expected a condition from runtime.newCondition, or a list of them`},
		"Text around it":           {[]string{`a ${1}`}, `at[0]: the text is not a single expression; expected "${", an expression and "}", without a trailing newline`},
		"No map":                   {[]string{`${runtime.newCondition('A')}`}, `at[0]: in "runtime.newCondition('A')" at 22: the argument of runtime.newCondition must be a map of type, status, reason and message`},
		"Without a status":         {[]string{`${runtime.newCondition({type: 'A'})}`}, `at[0]: in "runtime.newCondition({type: 'A'})" at 22: a condition must have a status`},
		"A field too many":         {[]string{`${runtime.newCondition({type: 'A', status: 'True', severity: 'x'})}`}, `at[0]: in "runtime.newCondition({type: 'A', status: 'True', severity: 'x'})" at 58: unknown key "severity": a condition has type, status, reason and message`},
		"An impossible status":     {[]string{`${runtime.newCondition({type: 'A', status: 'Yes'})}`}, `at[0]: in "runtime.newCondition({type: 'A', status: 'Yes'})" at 29: the status of a condition is "Yes"; a status must be one of True, False or Unknown`},
		"A status of another type": {[]string{`${runtime.newCondition({type: 'A', status: true})}`}, `at[0]: in "runtime.newCondition({type: 'A', status: true})" at 9: the fields of a condition are strings`},
		"Without runtime":          {[]string{`${newCondition({'type': 'A', 'status': 'True'})}`}, `at[0]: in "newCondition({'type': 'A', 'status': 'True'})" at 1: there is no function "newCondition"; did you mean "runtime.newCondition"?`},
		"A misspelled function":    {[]string{`${newConditon({'type': 'A', 'status': 'True'})}`}, `at[0]: in "newConditon({'type': 'A', 'status': 'True'})" at 1: there is no function "newConditon"; did you mean "runtime.newCondition"?`},
		"Twice the same":           {[]string{`${runtime.newCondition({type: 'A', status: 'True'})}`, `${runtime.newCondition({type: 'A', status: 'False'})}`}, `at[1]: in "runtime.newCondition({type: 'A', status: 'False'})" at 29: the condition type "A" is already set by at[0]`},
		"One reads another":        {[]string{`${runtime.newCondition({type: 'B', status: runtime.condition(schema, 'A').status})}`, `${runtime.newCondition({type: 'A', status: 'False'})}`}, `at[0]: in "runtime.newCondition({type: 'B', status: runtime.condition(schema, 'A').status})" at 68: "A" is a condition of this definition's own; custom conditions cannot reference each other`},
		"An unknown built-in":      {[]string{`${runtime.newCondition({type: 'B', status: runtime.condition(schema, 'ResourceReady').status})}`}, `at[0]: in "runtime.newCondition({type: 'B', status: runtime.condition(schema, 'ResourceReady').status})" at 68: schema has no condition "ResourceReady" that can be read here; expected Ready, ResourcesReady; did you mean "ResourcesReady"?`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems := env.Conditions(tc.sources, "schema", builtins, "at")
			if problems == nil {
				t.Fatal("nothing is wrong")
			}
			if diff := cmp.Diff(tc.want, problems.Err().Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, problems := env.Compile(`runtime.newCondition({type: 'A', status: 'True'})`, "x"); problems == nil {
		t.Error("conditions can be made anywhere")
	}
}
