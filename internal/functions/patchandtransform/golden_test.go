package patchandtransform

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGoldens reads testdata: input.yaml is what an author writes, xr.yaml the observed
// composite, observed.yaml and desired.yaml resources by their names, details.yaml their
// connection details, and context.yaml the pipeline's context. want-answer is what the
// function makes of it.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		a.Got("answer", told(t, Run(request(t, a.Input))))
	})
}

func request(t testing.TB, in map[string]string) call.Request {
	r := call.Request{
		Input: parsed(t, in["input.yaml"]), Context: parsed(t, in["context.yaml"]),
		Observed: call.State{Composite: call.Resource{Object: parsed(t, in["xr.yaml"])}, Resources: map[string]call.Resource{}},
		Desired:  call.State{Resources: map[string]call.Resource{}},
	}
	details := parsed(t, in["details.yaml"])
	for name, o := range parsed(t, in["observed.yaml"]) {
		resource := call.Resource{Object: o.(map[string]any)}
		if of, ok := details[name].(map[string]any); ok {
			resource.ConnectionDetails = map[string][]byte{}
			for key, value := range of {
				resource.ConnectionDetails[key] = []byte(value.(string))
			}
		}
		r.Observed.Resources[name] = resource
	}
	for name, o := range parsed(t, in["desired.yaml"]) {
		r.Desired.Resources[name] = call.Resource{Object: o.(map[string]any), Ready: call.True}
	}
	return r
}

// told writes an answer as people read it.
func told(t testing.TB, r call.Response) string {
	t.Helper()
	out := map[string]any{"composite": r.Desired.Composite.Object}
	resources, ready := map[string]any{}, []string{}
	for name, resource := range r.Desired.Resources {
		resources[name] = resource.Object
		if resource.Ready == call.True {
			ready = append(ready, name)
		}
	}
	out["resources"], out["ready"], out["context"] = resources, ready, r.Context
	if len(r.Desired.Composite.ConnectionDetails) > 0 {
		details := map[string]string{}
		for key, value := range r.Desired.Composite.ConnectionDetails {
			details[key] = string(value)
		}
		out["connectionDetails"] = details
	}
	data, err := yaml.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, result := range r.Results {
		b.WriteString([]string{"Warning: ", "Fatal: "}[result.Severity] + result.Message + "\n")
	}
	if b.Len() > 0 {
		b.WriteString("---\n")
	}
	return b.String() + string(data)
}
