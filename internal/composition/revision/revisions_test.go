package revision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/diag"
)

func TestVerdicts(t *testing.T) {
	kind := v1.TypeReference{APIVersion: "example.org/v1", Kind: "App"}
	pipeline := func(functions ...string) *v1.Composition {
		c := &v1.Composition{ObjectMeta: metav1.ObjectMeta{Name: "small"}, Spec: v1.CompositionSpec{CompositeTypeRef: kind}}
		for _, f := range functions {
			c.Spec.Pipeline = append(c.Spec.Pipeline, v1.PipelineStep{Step: "step-" + f, FunctionRef: v1.FunctionReference{Name: f}})
		}
		return c
	}
	type verdicts struct {
		status          metav1.ConditionStatus
		reason, message string
	}
	cases := map[string]struct {
		composition *v1.Composition
		functions   knownFunctions
		want        verdicts
		inputs      diag.List
	}{
		"All functions are there": {pipeline("a", "b"), knownFunctions{names: []string{"b", "a"}}, verdicts{"True", "ValidPipeline", ""}, nil},
		"One isn't": {
			pipeline("render", "ready"), knownFunctions{names: []string{"render", "reedy"}},
			verdicts{"False", "MissingCapabilities", `spec.pipeline[1].functionRef.name: there is no function ready; did you mean "reedy"?`}, nil,
		},
		"One can't compose": {
			pipeline("a", "b"), knownFunctions{names: []string{"a", "b"}, incapable: []string{"b"}},
			verdicts{"False", "MissingCapabilities", "spec.pipeline[1].functionRef.name: function b does not have the capability composition"}, nil,
		},
		"The pipeline makes no sense": {
			pipeline("a", "a"), knownFunctions{names: []string{"a"}},
			verdicts{"False", "InvalidPipeline", `spec.pipeline[1].step: is a duplicate: "step-a"`}, nil,
		},
		"It makes none, and functions are missing: all is told": {
			pipeline("a", "a", "canvas"), knownFunctions{names: []string{"a"}},
			verdicts{"False", "InvalidPipeline", "spec.pipeline[1].step: is a duplicate: \"step-a\"\nspec.pipeline[2].functionRef.name: there is no function canvas: create the Function canvas"}, nil,
		},
		"Nobody knows which functions there are": {
			pipeline("a"), knownFunctions{unknown: "may not list"}, verdicts{"Unknown", "FunctionsUnknown", "cannot read the functions of the cluster: may not list"}, nil,
		},
		"An input is invalid": {
			pipeline("a"), knownFunctions{names: []string{"a"}}, verdicts{"False", "InvalidPipeline", `spec.pipeline[0].input.patchess: no such field; did you mean "patches"?`},
			diag.List{{Path: "spec.pipeline[0].input.patchess", Problem: "no such field", Nearest: "patches"}},
		},
	}
	for name, tc := range cases {
		c := pipelineCondition(tc.composition, tc.inputs, tc.functions)
		if diff := cmp.Diff(tc.want, verdicts{c.Status, c.Reason, c.Message}, cmp.AllowUnexported(verdicts{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
