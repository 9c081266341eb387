// Package functiontest builds calls of composition functions from the files of a golden archive,
// and renders the answers.
package functiontest

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/composition/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// Value reads a YAML text as a function receives it.
func Value(tb testing.TB, text string) any {
	tb.Helper()
	var raw any
	if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
		tb.Fatal(err)
	}
	out, err := fieldpath.JSON(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

// Object is Value for a map; nil for an empty text.
func Object(tb testing.TB, text string) map[string]any {
	tb.Helper()
	out, _ := Value(tb, text).(map[string]any)
	return out
}

// Request reads a call from input.yaml, xr.yaml (the observed composite), and observed.yaml and
// desired.yaml (resources by name; all desired ones are ready). The desired resource
// "composite" is the desired composite.
func Request(tb testing.TB, in map[string]string) call.Request {
	tb.Helper()
	r := call.Request{
		Input:    Object(tb, in["input.yaml"]),
		Observed: call.State{Composite: call.Resource{Object: Object(tb, in["xr.yaml"])}, Resources: map[string]call.Resource{}},
		Desired:  call.State{Resources: map[string]call.Resource{}},
	}
	for name, o := range Object(tb, in["observed.yaml"]) {
		r.Observed.Resources[name] = call.Resource{Object: o.(map[string]any)}
	}
	for name, o := range Object(tb, in["desired.yaml"]) {
		if name == "composite" {
			r.Desired.Composite.Object = o.(map[string]any)
			continue
		}
		r.Desired.Resources[name] = call.Resource{Object: o.(map[string]any), Ready: call.True}
	}
	return r
}

// Select returns the objects that a function requires.
func Select(all []any, s call.ResourceSelector) []map[string]any {
	out := []map[string]any{}
	for _, item := range all {
		o := &unstructured.Unstructured{Object: item.(map[string]any)}
		matches := o.GetNamespace() == s.Namespace && o.GetName() == s.Name
		if s.Labels != nil {
			matches = (s.Namespace == "" || o.GetNamespace() == s.Namespace) && labels.SelectorFromSet(s.Labels).Matches(labels.Set(o.GetLabels()))
		}
		if o.GetAPIVersion() == s.APIVersion && o.GetKind() == s.Kind && matches {
			out = append(out, o.Object)
		}
	}
	return out
}

// Text renders the results of a call, a line each, and then the rest of the answer as YAML.
func Text(tb testing.TB, results []call.Result, answer map[string]any) string {
	tb.Helper()
	text := ""
	for _, result := range results {
		text += []string{"Warning: ", "Fatal: "}[result.Severity] + result.Message + "\n"
	}
	if text != "" {
		text += "---\n"
	}
	return text + golden.YAML(tb, answer)
}
