package extraresources

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/testkit/functiontest"
)

const head = "apiVersion: extra-resources.fn.crossplane.io/v1beta1\nkind: Input\n"

func TestProblemsOfAnInput(t *testing.T) {
	cases := map[string]struct {
		input string
		want  []string
	}{
		"nothing to read": {head, []string{"spec.extraResources: is not set"}},
		"all problems at once": {
			head + `spec:
  policy: {resolution: optional}
  extraResources:
  - {into: a, kind: A, apiVersion: v1}
  - {into: a, type: selector, kind: A, apiVersion: v1, ref: {name: a}}
  - {type: Selector, selector: {minMatch: -1, sortByFieldPath: "a[", matchLabels: [{type: Value}, {key: b}]}}
`,
			[]string{
				"spec.extraResources[0].ref.name: is not set",
				`spec.extraResources[1].into: "a" occurs twice`,
				`spec.extraResources[1].type: cannot be "selector"; expected Reference, Selector; did you mean "Selector"?`,
				"spec.extraResources[2].apiVersion: is not set",
				"spec.extraResources[2].into: is not set",
				"spec.extraResources[2].kind: is not set",
				"spec.extraResources[2].selector.matchLabels[0].key: is not set",
				"spec.extraResources[2].selector.matchLabels[0].value: is not set",
				"spec.extraResources[2].selector.matchLabels[1].valueFromFieldPath: is not set",
				"spec.extraResources[2].selector.minMatch: is negative",
				`spec.extraResources[2].selector.sortByFieldPath: cannot parse path "a[": unterminated '[' at position 1`,
				`spec.policy.resolution: cannot be "optional"; expected Required, Optional; did you mean "Optional"?`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range Check(functiontest.Object(t, tc.input)) {
				got = append(got, d.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAFailureKeepsTheRequirements: without them, the object that is missing would not be waited for.
func TestAFailureKeepsTheRequirements(t *testing.T) {
	r := call.Request{
		Input:    functiontest.Object(t, head+"spec: {extraResources: [{into: a, kind: ConfigMap, apiVersion: v1, namespace: market, ref: {name: prices}}]}"),
		Required: call.Required{Resources: map[string][]map[string]any{"a": nil}},
	}
	out := Run(r)
	want := map[string]call.ResourceSelector{"a": {APIVersion: "v1", Kind: "ConfigMap", Namespace: "market", Name: "prices"}}
	if diff := cmp.Diff(want, out.Requirements.Resources); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(out.Results) != 1 || !strings.Contains(out.Results[0].Message, "spec.extraResources[0]: ConfigMap prices does not exist") {
		t.Errorf("got %v", out.Results)
	}
}
