package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/profile"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// answers has the answers of functions by their names.
type answers map[string]func() (*fnv1.RunFunctionResponse, error)

func (a answers) Run(_ context.Context, name string, _ *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	return a[name]()
}

func TestCallsOfFunctionsAreMeasured(t *testing.T) {
	result := func(s fnv1.Severity) func() (*fnv1.RunFunctionResponse, error) {
		return func() (*fnv1.RunFunctionResponse, error) {
			return &fnv1.RunFunctionResponse{Results: []*fnv1.Result{{Severity: s}}}, nil
		}
	}
	runner := measuredFunctions{answers{
		"good":   result(fnv1.Severity_SEVERITY_WARNING),
		"fatal":  result(fnv1.Severity_SEVERITY_FATAL),
		"broken": func() (*fnv1.RunFunctionResponse, error) { return nil, errors.New("no") },
	}}
	kind := schema.GroupVersionKind{Group: "example.com", Kind: "Database"}
	profiler := telemetry.NewProfiler(time.Now(), func() []schema.GroupVersionKind { return nil })
	for _, ctx := range []context.Context{profiler.Context(t.Context(), kind), t.Context()} {
		for _, name := range []string{"good", "fatal", "broken", "good"} {
			response, err := runner.Run(ctx, name, nil)
			if (err != nil) != (name == "broken") || (response == nil) != (name == "broken") {
				t.Errorf("%s: the runner returned %v, %v", name, response, err)
			}
		}
	}
	r := profile.Reading{Kinds: []profile.Kind{{Group: kind.Group, Kind: kind.Kind}}}
	profiler.Fill(&r, time.Now())
	want := map[string][2]uint64{"good": {2, 0}, "fatal": {1, 1}, "broken": {1, 1}}
	for _, f := range r.Kinds[0].Functions {
		if got := [2]uint64{f.Calls.Count(), f.Failed}; got != want[f.Name] {
			t.Errorf("%s: got %v calls and failures, not %v", f.Name, got, want[f.Name])
		}
		delete(want, f.Name)
	}
	if len(want) > 0 {
		t.Errorf("not measured: %v", want)
	}
}
