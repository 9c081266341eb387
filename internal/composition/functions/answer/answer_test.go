package answer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

func of(t *testing.T, text string) *structpb.Struct {
	t.Helper()
	s, err := structs.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRun(t *testing.T) {
	before := &fnv1.RunFunctionRequest{
		Meta:    &fnv1.RequestMeta{Tag: "t"},
		Context: of(t, `{"a":"before"}`),
		Desired: &fnv1.State{Resources: map[string]*fnv1.Resource{"before": {Resource: of(t, `{"kind":"A"}`)}}},
	}
	cases := map[string]struct {
		input string
		want  *fnv1.RunFunctionResponse
		says  string
	}{
		"The answer is laid over what was wanted before": {
			input: `{"response":{"desired":{"resources":{"new":{"resource":{"kind":"B"},"ready":"READY_TRUE"}}},"results":[{"severity":"SEVERITY_NORMAL","message":"done"}]}}`,
			want: &fnv1.RunFunctionResponse{
				Meta: &fnv1.ResponseMeta{Tag: "t"}, Context: of(t, `{"a":"before"}`),
				Desired: &fnv1.State{Resources: map[string]*fnv1.Resource{
					"before": {Resource: of(t, `{"kind":"A"}`)}, "new": {Resource: of(t, `{"kind":"B"}`), Ready: fnv1.Ready_READY_TRUE},
				}},
				Results: []*fnv1.Result{{Severity: fnv1.Severity_SEVERITY_NORMAL, Message: "done"}},
			},
		},
		"An empty answer changes nothing": {
			input: `{"kind":"Response","response":{}}`,
			want:  &fnv1.RunFunctionResponse{Meta: &fnv1.ResponseMeta{Tag: "t"}, Context: before.GetContext(), Desired: before.GetDesired()},
		},
		"A field that isn't known is refused":     {input: `{"respones":{},"response":{}}`, says: `invalid Function input: respones: no such field; did you mean "response"?`},
		"An input without an answer is a mistake": {input: `{"kind":"Response"}`, says: `invalid Function input: response: is not set, or is not an object`},
		"An answer has to be the protocol's":      {input: `{"response":{"wanted":{}}}`, says: "is not a RunFunctionResponse: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before.Input = of(t, tc.input)
			got, err := Run(before)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want != nil {
				if diff := cmp.Diff(tc.want, got, protocmp.Transform()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				return
			}
			for _, text := range strings.Split(tc.says, "|") {
				if !strings.Contains(got.String(), strings.ReplaceAll(text, `"`, `\"`)) {
					t.Errorf("%q isn't in %s", text, got)
				}
			}
			if last := got.GetResults()[len(got.GetResults())-1]; last.GetSeverity() != fnv1.Severity_SEVERITY_FATAL {
				t.Errorf("it isn't fatal: %v", last)
			}
		})
	}
}
