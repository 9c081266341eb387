package functions_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/program/functions"
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

func TestACompositionNeedsNoPod(t *testing.T) {
	var known pipeline.Functions
	functions.Register(&known)
	request := &fnv1.RunFunctionRequest{
		Meta:  &fnv1.RequestMeta{Tag: "t"},
		Input: of(t, `{"apiVersion":"pt.fn.crossplane.io/v1beta1","kind":"Resources","resources":[{"name":"m","base":{"apiVersion":"v1","kind":"ConfigMap"},"patches":[{"fromFieldPath":"spec.x","toFieldPath":"data.x"}],"readinessChecks":[{"type":"MatchString","fieldPath":"data.x","matchString":"never"}]}]}`),
		Observed: &fnv1.State{
			Composite: &fnv1.Resource{Resource: of(t, `{"apiVersion":"a.b/v1","kind":"X","spec":{"x":"1"}}`)},
			Resources: map[string]*fnv1.Resource{"m": {Resource: of(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"}}`)}},
		},
	}
	first, err := known.Run(context.Background(), "crossplane-contrib-function-patch-and-transform", request)
	if err != nil {
		t.Fatal(err)
	}
	request.Desired, request.Context = first.GetDesired(), first.GetContext()
	request.Input = of(t, `{"apiVersion":"autoready.fn.crossplane.io/v1beta1","kind":"Input","ttl":"1m"}`)
	second, err := known.Run(context.Background(), "function-auto-ready", request)
	if err != nil {
		t.Fatal(err)
	}
	want := &fnv1.RunFunctionResponse{
		Meta: &fnv1.ResponseMeta{Tag: "t", Ttl: durationpb.New(time.Minute)},
		Desired: &fnv1.State{
			Composite: &fnv1.Resource{Resource: of(t, `{"apiVersion":"a.b/v1","kind":"X"}`)},
			Resources: map[string]*fnv1.Resource{"m": {
				Resource: of(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"},"data":{"x":"1"}}`),
				Ready:    fnv1.Ready_READY_TRUE,
			}},
		},
		Context: of(t, `{"apiextensions.crossplane.io/environment":{"apiVersion":"internal.crossplane.io/v1alpha1","kind":"Environment"}}`),
	}
	if diff := cmp.Diff(want, second, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAMistakeIsAFatalResult(t *testing.T) {
	for name, core := range functions.PureFunctions() {
		response, err := functions.Adapt(core)(context.Background(), &fnv1.RunFunctionRequest{Input: of(t, `{"kind":1}`)})
		results := response.GetResults()
		if err != nil || len(results) == 0 || results[len(results)-1].GetSeverity() != fnv1.Severity_SEVERITY_FATAL {
			t.Errorf("%s: got %v, %v", name, response, err)
		}
	}
}

func TestARequestThatObjectsCannotHoldIsAnError(t *testing.T) {
	bad := &structpb.Struct{Fields: map[string]*structpb.Value{"x": structpb.NewStringValue("\xff")}}
	for name, request := range map[string]*fnv1.RunFunctionRequest{
		"input":    {Input: bad},
		"context":  {Context: bad},
		"observed": {Observed: &fnv1.State{Composite: &fnv1.Resource{Resource: bad}}},
		"desired":  {Desired: &fnv1.State{Resources: map[string]*fnv1.Resource{"a": {Resource: bad}}}},
	} {
		for _, core := range functions.PureFunctions() {
			if _, err := functions.Adapt(core)(context.Background(), request); err == nil {
				t.Errorf("%s: want an error", name)
			}
		}
	}
}
