package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// object is a struct of JSON.
func object(t testing.TB, text string) *structpb.Struct {
	t.Helper()
	s, err := structs.FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// world is the observed state of most tests.
func world(t testing.TB) pipeline.Request {
	t.Helper()
	observed, err := pipeline.NewObservedState(
		pipeline.Observation{Object: map[string]any{
			"apiVersion": "example.org/v1", "kind": "App",
			"metadata": map[string]any{"name": "shop", "namespace": "team"},
			"spec":     map[string]any{"replicas": int64(3)},
		}},
		map[string]pipeline.Observation{"db": {
			Object:            map[string]any{"apiVersion": "v1", "kind": "ConfigMap"},
			ConnectionDetails: map[string][]byte{"user": []byte("admin")},
		}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return pipeline.Request{Observed: observed}
}

// on starts a response that hands on what the request has.
func on(r *request) *response {
	desired := r.GetDesired()
	if desired == nil {
		desired = &fnv1.State{}
	}
	if desired.Resources == nil {
		desired.Resources = map[string]*fnv1.Resource{}
	}
	return &response{Desired: desired, Context: r.GetContext()}
}

// running is a pipeline of in-process functions, one for each step and of its name.
func running(functions ...func(*request) *response) (*pipeline.Pipeline, []pipeline.Step) {
	known := &pipeline.Functions{}
	var steps []pipeline.Step
	for i, f := range functions {
		name := string(rune('a' + i))
		known.Register("fn-"+name, func(_ context.Context, r *request) (*response, error) { return f(r), nil })
		steps = append(steps, pipeline.Step{Name: name, Function: "fn-" + name})
	}
	return &pipeline.Pipeline{Runner: pipeline.Guard(known, pipeline.CallLimits{})}, steps
}

func TestAPipelineAccumulates(t *testing.T) {
	p, steps := running(
		func(r *request) *response {
			out := on(r)
			out.Desired.Composite = &fnv1.Resource{Resource: object(t, `{"status":{"replicas":3,"load":0.5}}`)}
			out.Desired.Resources["web"] = &fnv1.Resource{Resource: object(t, `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":3}}`)}
			out.Context = object(t, `{"seen":["a"]}`)
			out.Meta = &fnv1.ResponseMeta{Ttl: durationpb.New(time.Minute)}
			out.Results = []*fnv1.Result{{Severity: fnv1.Severity_SEVERITY_NORMAL, Message: "made", Target: fnv1.Target_TARGET_COMPOSITE_AND_CLAIM.Enum()}}
			out.Conditions = []*fnv1.Condition{{Type: "WebUp", Status: fnv1.Status_STATUS_CONDITION_FALSE, Reason: "New"}}
			return out
		},
		func(r *request) *response {
			out := on(r)
			if r.GetContext().GetFields()["seen"] == nil || r.GetObserved().GetResources()["db"].GetConnectionDetails()["user"] == nil {
				out.Results = append(out.Results, &fnv1.Result{Severity: fnv1.Severity_SEVERITY_FATAL, Message: "the context or the observed state is missing"})
			}
			out.Desired.Resources["web"].Ready = fnv1.Ready_READY_TRUE
			out.Desired.Composite.ConnectionDetails = map[string][]byte{"url": []byte("https://")}
			out.Desired.Composite.Ready = fnv1.Ready(99)
			out.Meta = &fnv1.ResponseMeta{Ttl: durationpb.New(10 * time.Second)}
			reason := "Slow"
			out.Results = append(out.Results,
				&fnv1.Result{Severity: fnv1.Severity_SEVERITY_WARNING, Message: "slow", Reason: &reason},
				&fnv1.Result{Severity: fnv1.Severity(77), Message: "from the future"})
			out.Conditions = []*fnv1.Condition{
				{Type: "WebUp", Status: fnv1.Status_STATUS_CONDITION_TRUE, Reason: "Up", Target: fnv1.Target_TARGET_COMPOSITE_AND_CLAIM.Enum()},
				{Type: "example.org/Other"},
			}
			return out
		},
		func(r *request) *response { return on(r) },
	)
	got := p.Run(t.Context(), steps, world(t))
	want := pipeline.Result{
		Desired: &pipeline.Desired{
			Composite:         map[string]any{"status": map[string]any{"replicas": int64(3), "load": 0.5}},
			ConnectionDetails: map[string][]byte{"url": []byte("https://")},
			Resources: map[string]pipeline.Resource{"web": {
				Object: map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{"replicas": int64(3)}},
				Ready:  fnv1.Ready_READY_TRUE,
			}},
			Context: map[string]any{"seen": []any{"a"}},
		},
		Results: []pipeline.FunctionResult{
			{Step: "a", Reason: "ComposeResources", Message: "made", ForClaim: true},
			{Step: "b", Warning: true, Reason: "Slow", Message: "slow"},
			{Step: "b", Warning: true, Reason: "ComposeResources", Message: "from the future"},
		},
		Conditions: []pipeline.Condition{
			{Step: "b", Type: "WebUp", Status: metav1.ConditionTrue, Reason: "Up", ForClaim: true},
			{Step: "b", Type: "example.org/Other", Status: metav1.ConditionUnknown, Reason: "Unspecified"},
		},
		TTL: 10 * time.Second,
		Progress: []pipeline.Progress{
			{Step: "a", Function: "fn-a", Calls: 1, TTL: time.Minute},
			{Step: "b", Function: "fn-b", Calls: 1, TTL: 10 * time.Second},
			{Step: "c", Function: "fn-c", Calls: 1},
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform(), cmpopts.IgnoreFields(pipeline.Progress{}, "Requirements")); diff != "" {
		t.Error(diff)
	}
}

func TestStepRequest(t *testing.T) {
	var seen []*request
	p, steps := running(
		func(r *request) *response { seen = append(seen, r); return on(r) },
		func(r *request) *response { seen = append(seen, r); return on(r) },
	)
	steps[0].Input = object(t, `{"kind":"Input"}`)
	steps[1].Credentials = map[string]map[string][]byte{"cloud": {"key": []byte("secret")}}
	if out := p.Run(t.Context(), steps, world(t)); out.Failure != nil {
		t.Fatal(out.Failure)
	}
	if got := seen[0].GetInput().GetFields()["kind"].GetStringValue(); got != "Input" || seen[1].GetInput() != nil {
		t.Errorf("want the input of the first step there and only there")
	}
	if got := seen[1].GetCredentials()["cloud"].GetCredentialData().GetData()["key"]; string(got) != "secret" || len(seen[0].GetCredentials()) > 0 {
		t.Errorf("want the credentials of the second step there and only there")
	}
	if len(seen[0].GetMeta().GetCapabilities()) != 5 {
		t.Errorf("want five capabilities, got %v", seen[0].GetMeta())
	}
	first, again := seen[0].GetMeta().GetTag(), ""
	p.Run(t.Context(), steps, world(t))
	again = seen[2].GetMeta().GetTag()
	if first == "" || first != again || first == seen[1].GetMeta().GetTag() {
		t.Errorf("want equal requests of one tag and others of another: %q, %q", first, again)
	}
}

func TestAFatalResultStopsThePipeline(t *testing.T) {
	ran := false
	p, steps := running(
		func(r *request) *response {
			out := on(r)
			out.Results = []*fnv1.Result{
				{Severity: fnv1.Severity_SEVERITY_WARNING, Message: "uh"},
				{Severity: fnv1.Severity_SEVERITY_FATAL, Message: "no region", Target: fnv1.Target_TARGET_COMPOSITE_AND_CLAIM.Enum()},
				{Severity: fnv1.Severity_SEVERITY_FATAL, Message: "nor anything else"},
			}
			out.Conditions = []*fnv1.Condition{{Type: "RegionKnown", Status: fnv1.Status_STATUS_CONDITION_FALSE, Reason: "Missing"}}
			out.Requirements = &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{"region": byName("v1", "ConfigMap", "region")}}
			return out
		},
		func(r *request) *response { ran = true; return on(r) },
	)
	out := p.Run(t.Context(), steps, world(t))
	var fatal *pipeline.FatalError
	if ran || out.Desired != nil || !errors.As(out.Failure, &fatal) || fatal.Message != "no region" || !fatal.ForClaim || out.Failure.IsTransient() {
		t.Errorf("want the first fatal result to end it, got %v", out.Failure)
	}
	if len(out.Results) != 1 || len(out.Conditions) != 1 {
		t.Errorf("want its other results as well, got %+v", out)
	}
	if want := `step "a" (function fn-a): the function failed: no region`; out.Failure.Error() != want {
		t.Errorf("want %s, got %v", want, out.Failure)
	}
}

// TestTextsOfAFunctionAreBounded runs a function that floods its caller with texts.
func TestTextsOfAFunctionAreBounded(t *testing.T) {
	long := strings.Repeat("\x1b]0;", 1<<16) + "\n"
	p, steps := running(func(r *request) *response {
		out := on(r)
		for i := range 60 {
			text := fmt.Sprint(i)
			if i == 0 {
				text = long
			}
			out.Results = append(out.Results, &fnv1.Result{Severity: fnv1.Severity_SEVERITY_NORMAL, Message: text, Reason: &text})
			out.Conditions = append(out.Conditions, &fnv1.Condition{Type: fmt.Sprint("Type", i), Reason: "Flood", Message: &text})
		}
		return out
	})
	result := p.Run(t.Context(), steps, world(t))
	if result.Failure != nil || len(result.Results) != 60 || len(result.Conditions) != 60 {
		t.Fatalf("%d results and %d conditions: %v", len(result.Results), len(result.Conditions), result.Failure)
	}
	var texts []string
	for _, r := range result.Results {
		texts = append(texts, r.Reason, r.Message)
	}
	for _, c := range result.Conditions {
		texts = append(texts, c.Type, c.Reason, c.Message)
	}
	for _, text := range texts {
		if len(text) > 4<<10 || strings.ContainsAny(text, "\x1b\n") {
			t.Errorf("%d bytes: %.40q", len(text), text)
		}
	}
}

func TestAPipelineWithoutSteps(t *testing.T) {
	out := (&pipeline.Pipeline{}).Run(t.Context(), nil, world(t))
	if out.Failure != nil || out.Desired == nil || len(out.Desired.Resources) > 0 {
		t.Errorf("want nothing desired, got %+v", out)
	}
}
