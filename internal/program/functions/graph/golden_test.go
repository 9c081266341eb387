package graph

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/functiontest"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGoldens reads testdata: the files of functiontest.Request, schemas.yaml, the schemas of
// kinds where the engine provides them, and cluster.yaml, a list of other objects. want-answer
// is the function's answer once it has what it requires.
func TestGoldens(t *testing.T) {
	for pattern, dialect := range map[string]*Dialect{"testdata/*.txtar": Native, "testdata/kro/*.txtar": Kro} {
		f := New(dialect)
		golden.Run(t, pattern, func(t *testing.T, a *golden.Archive) {
			got := answer(t, f, a.Input)
			if uncached := answer(t, New(dialect), a.Input); got != uncached {
				t.Errorf("the answer differs without the function's cache:\n%s", cmp.Diff(got, uncached))
			}
			a.Record("answer", got)
		})
	}
}

// callUntilSettled calls a function until it has what it requires, and returns the number of calls.
func callUntilSettled(t *testing.T, f *Function, in map[string]string) (call.Response, int) {
	t.Helper()
	given := call.Required{}
	for calls := 1; ; calls++ {
		r := functiontest.Request(t, in)
		_, given.SchemasSupported = in["schemas.yaml"]
		r.Required = given
		response := f.Run(r)
		before := given
		given = provide(t, in, response.Requirements)
		if slices.ContainsFunc(response.Results, func(r call.Result) bool { return r.Severity == call.Fatal }) || cmp.Equal(keys(before), keys(given)) {
			return response, calls
		}
		if calls > 5 {
			t.Fatalf("the function never stops requiring something else: %v", response.Requirements)
		}
	}
}

func keys(g call.Required) []string {
	var out []string
	for key := range g.Resources {
		out = append(out, key)
	}
	for key := range g.Schemas {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// provide returns what a function requires, as an engine does.
func provide(t *testing.T, in map[string]string, r call.Requirements) call.Required {
	t.Helper()
	given := call.Required{Resources: map[string][]map[string]any{}, Schemas: map[string]call.Schema{}}
	schemas := functiontest.Object(t, in["schemas.yaml"])
	for key, kind := range r.Schemas {
		given.Schemas[key] = call.Schema{}
		if s, ok := schemas[kind.APIVersion+"/"+kind.Kind].(map[string]any); ok {
			given.Schemas[key] = call.Schema{Digest: object.Digest(s), Read: func() (map[string]any, error) { return s, nil }}
		}
	}
	all, _ := functiontest.Value(t, in["cluster.yaml"]).([]any)
	for key, s := range r.Resources {
		given.Resources[key] = functiontest.Select(all, s)
	}
	return given
}

// answer renders the answer of a function that has what it requires.
func answer(t *testing.T, f *Function, in map[string]string) string {
	t.Helper()
	r, calls := callUntilSettled(t, f, in)
	ready := func(of call.Ready) string { return []string{"Unspecified", "True", "False"}[of] }
	resources := map[string]any{}
	for name, resource := range r.Desired.Resources {
		resources[name+" ("+ready(resource.Ready)+")"] = resource.Object
	}
	out := map[string]any{"calls": calls, "composite (" + ready(r.Desired.Composite.Ready) + ")": r.Desired.Composite.Object, "resources": resources}
	var conditions []string
	for _, c := range r.Conditions {
		conditions = append(conditions, c.Type+"="+[]string{"Unknown", "True", "False"}[c.Status]+" "+strings.TrimSpace(c.Reason+": "+c.Message))
	}
	if len(conditions) > 0 {
		out["conditions"] = conditions
	}
	if required := slices.Sorted(maps.Keys(r.Requirements.Resources)); len(required) > 0 {
		out["requires"] = required
	}
	return functiontest.Text(t, r.Results, out)
}
