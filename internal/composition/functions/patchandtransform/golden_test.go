package patchandtransform

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/testkit/functiontest"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGoldens reads testdata: the files of functiontest.Request, details.yaml, connection details
// of observed resources, and context.yaml, the pipeline's context. want-answer is the function's
// answer.
func TestGoldens(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		a.Record("answer", answerText(t, Run(request(t, a.Input))))
	})
}

func request(t testing.TB, in map[string]string) call.Request {
	t.Helper()
	r := functiontest.Request(t, in)
	r.Context = functiontest.Object(t, in["context.yaml"])
	for name, details := range functiontest.Object(t, in["details.yaml"]) {
		resource := r.Observed.Resources[name]
		resource.ConnectionDetails = map[string][]byte{}
		for key, value := range details.(map[string]any) {
			resource.ConnectionDetails[key] = []byte(value.(string))
		}
		r.Observed.Resources[name] = resource
	}
	return r
}

// answerText renders an answer.
func answerText(t testing.TB, r call.Response) string {
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
	return functiontest.Text(t, r.Results, out)
}
