package sequencer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/testkit/functiontest"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

const head = "apiVersion: sequencer.fn.crossplane.io/v1beta1\nkind: Input\n"

func TestProblemsOfAnInput(t *testing.T) {
	cases := map[string]struct {
		input string
		want  []string
	}{
		"valid": {head + "rules: [{sequence: [a, 'b-.*'], condition: observed.composite.resource.spec.on}]", nil},
		"all problems at once": {
			head + `usageVersion: V1
cacheTTL: -1s
rules:
- {sequence: ["a(", b], createOnly: true, deleteOnly: true}
- {sequence: [a], condition: obserfed.composite.resource.spec.on}
- {sequence: [a], condition: size(context)}
`,
			[]string{
				`cacheTTL: "-1s" is not a duration`,
				"rules[0]: createOnly and deleteOnly exclude each other",
				"rules[0].sequence[0]: error parsing regexp: missing closing ): `^a($`",
				"rules[1].condition: at 1: undeclared reference to 'obserfed' (in container '')",
				"rules[2].condition: the result must be a boolean, not int",
				`usageVersion: cannot be "V1"; expected v2, v1; did you mean "v1"?`,
			},
		},
		"too many entries": {
			head + "rules: [{sequence: [" + strings.Repeat("a, ", maxEntries) + "a]}]",
			[]string{"rules: have 1001 entries in their sequences, over the limit of 1000"},
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

// TestWhatWaitsIsSaid: the results become events of the composite.
func TestWhatWaitsIsSaid(t *testing.T) {
	cases := map[string]struct{ input, want string }{
		"for one that is not there": {"rules: [{sequence: [x, b]}]", `"b" waits: "x" does not exist yet`},
		"for some that are ready":   {"rules: [{sequence: ['a-.*', b]}]", `"b" waits: of "a-.*", 1 of 2 resources are ready`},
		"for no condition":          {"rules: [{sequence: [a, b], condition: 'false'}]", `the sequence ["a" "b"] is skipped: its condition "false" is false`},
		"a condition that fails":    {"rules: [{sequence: [a, b], condition: context.x}]", "rules[0].condition cannot be evaluated: no such key: x"},
		"a condition that is too expensive": {
			"rules: [{sequence: [a, b], condition: '" + loops + "'}]", "rules[0].condition cannot be evaluated: operation cancelled: actual cost limit exceeded",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			input, err := structs.ToStruct(functiontest.Object(t, head+tc.input))
			if err != nil {
				t.Fatal(err)
			}
			out, err := Run(&fnv1.RunFunctionRequest{Input: input, Desired: &fnv1.State{Resources: map[string]*fnv1.Resource{
				"a-1": {Ready: fnv1.Ready_READY_TRUE}, "a-2": {}, "b": {},
			}}})
			if err != nil || len(out.GetResults()) != 1 || out.GetResults()[0].GetMessage() != tc.want {
				t.Errorf("want %q, got %v, %v", tc.want, out.GetResults(), err)
			}
		})
	}
}

// loops counts to a hundred thousand.
const loops = "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3,4,5,6,7,8,9].all(d, [0,1,2,3,4,5,6,7,8,9].all(e, e >= 0)))))"
