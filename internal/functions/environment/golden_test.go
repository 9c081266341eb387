package environment

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGoldens reads testdata: input.yaml is what an author writes, xr.yaml the observed
// composite, environment.yaml what earlier functions have made of the environment, and
// cluster.yaml a list of EnvironmentConfigs. want-answer is what the function makes of it,
// once it has been given what it requires.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		in := map[string]any{}
		for name, text := range a.Input {
			in[name] = parsed(t, []byte(text))
		}
		a.Got("answer", answer(t, in))
	})
}

func parsed(t *testing.T, text []byte) any {
	t.Helper()
	var read any
	if err := yaml.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	out, err := fieldpath.JSON(read)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// answer calls the function until it requires nothing else, as an engine does.
func answer(t *testing.T, in map[string]any) string {
	t.Helper()
	object := func(file string) map[string]any { o, _ := in[file].(map[string]any); return o }
	request := call.Request{Input: object("input.yaml"), Context: map[string]any{"other": "stays"}}
	request.Observed.Composite.Object = object("xr.yaml")
	if before := object("environment.yaml"); before != nil {
		request.Context[contextKey] = before
	}
	all, _ := in["cluster.yaml"].([]any)
	for range 5 {
		response := Run(request)
		given := map[string][]map[string]any{}
		for key, s := range response.Requirements.Resources {
			given[key] = found(all, s)
		}
		if slices.Equal(slices.Sorted(maps.Keys(given)), slices.Sorted(maps.Keys(request.Given.Resources))) {
			return told(t, response)
		}
		request.Given.Resources = given
	}
	t.Fatal("it keeps requiring something else")
	return ""
}

func found(all []any, s call.Selector) []map[string]any {
	var out []map[string]any
	for _, item := range all {
		o := &unstructured.Unstructured{Object: item.(map[string]any)}
		o.SetAPIVersion("apiextensions.crossplane.io/v1beta1")
		o.SetKind("EnvironmentConfig")
		if s.APIVersion != o.GetAPIVersion() || s.Kind != o.GetKind() {
			continue
		}
		if s.Labels == nil && o.GetName() == s.Name || s.Labels != nil && labels.SelectorFromSet(s.Labels).Matches(labels.Set(o.GetLabels())) {
			out = append(out, o.Object)
		}
	}
	return out
}

// told writes an answer as people read it.
func told(t *testing.T, r call.Response) string {
	t.Helper()
	var b strings.Builder
	for _, result := range r.Results {
		b.WriteString([]string{"Warning: ", "Fatal: "}[result.Severity] + result.Message + "\n")
	}
	if b.Len() > 0 {
		b.WriteString("---\n")
	}
	requires := map[string]any{}
	for key, s := range r.Requirements.Resources {
		requires[key] = s.Name
		if s.Labels != nil {
			requires[key] = s.Labels
		}
	}
	data, err := yaml.Marshal(map[string]any{"context": r.Context, "requires": requires})
	if err != nil {
		t.Fatal(err)
	}
	return b.String() + string(data)
}
