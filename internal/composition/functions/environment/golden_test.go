package environment

import (
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit/functiontest"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGoldens reads testdata: the files of functiontest.Request, environment.yaml, the
// environment of earlier functions, and cluster.yaml, a list of EnvironmentConfigs. want-answer
// is the function's answer once it has the objects that it requires.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) { a.Record("answer", answer(t, a.Input)) })
}

// answer calls the function until it requires no other objects, as an engine does.
func answer(t *testing.T, in map[string]string) string {
	t.Helper()
	request := functiontest.Request(t, in)
	request.Context = map[string]any{"other": "stays"}
	if before := functiontest.Object(t, in["environment.yaml"]); before != nil {
		request.Context[contextKey] = before
	}
	all, _ := functiontest.Value(t, in["cluster.yaml"]).([]any)
	for _, item := range all {
		o := &unstructured.Unstructured{Object: item.(map[string]any)}
		o.SetAPIVersion("apiextensions.crossplane.io/v1beta1")
		o.SetKind("EnvironmentConfig")
	}
	for range 5 {
		response := Run(request)
		given, requires := map[string][]map[string]any{}, map[string]any{}
		for key, s := range response.Requirements.Resources {
			given[key], requires[key] = functiontest.Select(all, s), s.Name
			if s.Labels != nil {
				requires[key] = s.Labels
			}
		}
		if slices.Equal(slices.Sorted(maps.Keys(given)), slices.Sorted(maps.Keys(request.Required.Resources))) {
			return functiontest.Text(t, response.Results, map[string]any{"context": response.Context, "requires": requires})
		}
		request.Required.Resources = given
	}
	t.Fatal("the function never stops requiring other objects")
	return ""
}
