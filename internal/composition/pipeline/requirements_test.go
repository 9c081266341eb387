package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

func byName(apiVersion, kind, name string) *fnv1.ResourceSelector {
	return &fnv1.ResourceSelector{ApiVersion: apiVersion, Kind: kind, Match: &fnv1.ResourceSelector_MatchName{MatchName: name}}
}

// shelf is a Fetcher: what it has by name, what it does not know yet and what it cannot
// read.
type shelf struct {
	has           map[string]map[string]any
	unknown, sick string
	reads         int
}

func (s *shelf) Resources(_ context.Context, selector *fnv1.ResourceSelector) ([]map[string]any, bool, error) {
	s.reads++
	switch name := selector.GetMatchName(); {
	case name == s.unknown:
		return nil, false, nil
	case name == s.sick:
		return nil, false, errors.New("forbidden")
	case s.has[name] == nil:
		return nil, true, nil
	default:
		return []map[string]any{s.has[name]}, true, nil
	}
}

func (s *shelf) Schema(_ context.Context, selector *fnv1.SchemaSelector) (map[string]any, bool, error) {
	return s.has[selector.GetKind()], selector.GetKind() != s.unknown, nil
}

// requiring is a function that says at each call what it requires, given what it got.
func requiring(names func(call int, r *request) []string) func(*request) *response {
	call := 0
	return func(r *request) *response {
		call++
		out := on(r)
		out.Requirements = &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{}}
		for _, name := range names(call, r) {
			out.Requirements.Resources[name] = byName("v1", "ConfigMap", name)
		}
		return out
	}
}

func TestRequirements(t *testing.T) {
	always := func(names ...string) func(int, *request) []string {
		return func(int, *request) []string { return names }
	}
	chain := func(_ int, r *request) []string { // each leads to the next
		names := []string{"1"}
		for i := 1; r.GetRequiredResources()[fmt.Sprint(i)] != nil && i < 4; i++ {
			names = append(names, fmt.Sprint(i+1))
		}
		return names
	}
	selecting := func(names ...string) *fnv1.Requirements {
		out := &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{}}
		for _, name := range names {
			out.Resources[name] = byName("v1", "ConfigMap", name)
		}
		return out
	}
	cases := map[string]struct {
		reason            string
		names             func(call int, r *request) []string
		initial, expected *fnv1.Requirements
		calls             int
		left              string // the requirements that the step ends with
		failure           string
		waiting           string
	}{
		"A function that requires nothing": {
			"it is called once", always(), nil, nil, 1, "", "", "",
		},
		"A function that requires the same each time": {
			"it is called again with what it requires", always("1"), nil, nil, 2, "1", "", "",
		},
		"A function that requires what it required the last time": {
			"it is given that at once", always("1"), nil, selecting("1"), 1, "1", "", "",
		},
		"A function that requires less than the last time": {
			"its response must not depend on objects that are not watched", always("1"), nil, selecting("1", "2"), 2, "1", "", "",
		},
		"A function whose step requires the same": {
			"it is given that at once", always("1"), selecting("1"), nil, 1, "1", "", "",
		},
		"A function that does not repeat what its step requires": {
			"it has seen it", always(), selecting("1"), nil, 1, "1", "", "",
		},
		"A function that requires more than its step": {
			"it is called again with both", always("2"), selecting("1"), nil, 2, "1 2", "", "",
		},
		"A function whose requirements lead to others": {
			"it is called until it has all", chain, nil, nil, 5, "1 2 3 4", "", "",
		},
		"A function that gets there at the last call": {
			"six calls are allowed",
			func(call int, _ *request) []string { return []string{fmt.Sprint(min(call, 5))} }, nil, nil, 6, "5", "", "",
		},
		"A function that never knows": {
			"the number of calls has to be limited",
			func(call int, _ *request) []string { return []string{fmt.Sprint(call)} }, nil, nil, 6, "5",
			`step "a" (function fn-a): the function's requirements did not stabilize after 6 calls: they changed from [5] to [6]`, "",
		},
		"A function that wavers": {
			"it would never end",
			func(call int, _ *request) []string { return [][]string{nil, {"1"}}[call%2] }, nil, nil, 6, "1",
			`step "a" (function fn-a): the function's requirements did not stabilize after 6 calls: they changed from [1] to []`, "",
		},
		"A function that requires what does not exist": {
			"that it does not is the answer", always("missing"), nil, nil, 2, "missing", "", "",
		},
		"A function that requires what is not known yet": {
			"it waits, for all of it", always("1", "unknown"), nil, nil, 1, "1 unknown", "", "a unknown",
		},
		"A step that requires what is not known yet": {
			"its function is not called", always(), selecting("unknown"), nil, 0, "unknown", "", "a unknown",
		},
		"A function that requires what cannot be read": {
			"that may pass", always("sick"), nil, nil, 1, "sick",
			`step "a" (function fn-a): requirement "sick" cannot be read: forbidden`, "",
		},
		"A step that requires nonsense": {
			"it is not the function's fault", always(), &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{"x": {ApiVersion: "v1"}}}, nil, 0, "",
			`step "a" (function fn-a): the step's requirements.resources[x].kind is required`, "",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p, steps := running(requiring(tc.names))
			p.Fetcher = &shelf{has: map[string]map[string]any{"1": {"data": int64(1)}, "2": {}, "3": {}, "4": {}}, unknown: "unknown", sick: "sick"}
			steps[0].Requirements, steps[0].LastRequirements = tc.initial, tc.expected
			out := p.Run(t.Context(), steps, world(t))
			if got := out.Progress[0].Calls; got != tc.calls {
				t.Errorf("%s: want %d calls, got %d", tc.reason, tc.calls, got)
			}
			if got := keysOf(out.Progress[0].Requirements); got != tc.left {
				t.Errorf("%s: want it to end with %q, got %q", tc.reason, tc.left, got)
			}
			failure, waiting := "", []string{}
			if out.Failure != nil {
				failure = out.Failure.Error()
			}
			for _, w := range out.Pending {
				waiting = append(waiting, w.Step+" "+w.Key)
			}
			if diff := cmp.Diff([]string{tc.failure, tc.waiting}, []string{failure, strings.Join(waiting, ", ")}); diff != "" {
				t.Errorf("%s:\n%s", tc.reason, diff)
			}
			if done := tc.failure == "" && tc.waiting == ""; (out.Desired != nil) != done {
				t.Errorf("want exactly one of desired, failure and waiting")
			}
		})
	}
}

func keysOf(r *fnv1.Requirements) string {
	var out []string
	for _, name := range []string{"1", "2", "3", "4", "5", "6", "missing", "unknown", "sick"} {
		if r.GetResources()[name] != nil {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

func TestSchemasAndExtraResources(t *testing.T) {
	var last *request
	p, steps := running(func(r *request) *response {
		last = r
		out := on(r)
		out.Requirements = &fnv1.Requirements{
			ExtraResources: map[string]*fnv1.ResourceSelector{"old": byName("v1", "ConfigMap", "1"), "gone": byName("v1", "ConfigMap", "no")},
			Schemas:        map[string]*fnv1.SchemaSelector{"app": {ApiVersion: "example.org/v1", Kind: "App"}, "none": {ApiVersion: "example.org/v1", Kind: "None"}},
		}
		return out
	})
	p.Fetcher = &shelf{has: map[string]map[string]any{"1": {"data": int64(1)}, "App": {"type": "object"}}}
	out := p.Run(t.Context(), steps, world(t))
	if out.Failure != nil || out.Progress[0].Calls != 2 {
		t.Fatalf("want two calls, got %+v", out)
	}
	extra := last.GetExtraResources() //nolint:staticcheck // functions still ask this way
	if len(extra["old"].GetItems()) != 1 || extra["gone"] == nil || len(extra["gone"].GetItems()) != 0 || len(last.GetRequiredResources()) != 0 {
		t.Errorf("want the extra resources where old functions look for them, got %v", extra)
	}
	if last.GetRequiredSchemas()["app"].GetOpenapiV3() == nil || last.GetRequiredSchemas()["none"] == nil || last.GetRequiredSchemas()["none"].GetOpenapiV3() != nil {
		t.Errorf("want one schema and one that does not exist, got %v", last.GetRequiredSchemas())
	}
}

func TestAllStepsSeeTheSame(t *testing.T) {
	require := func(int, *request) []string { return []string{"1"} }
	p, steps := running(requiring(require), requiring(require))
	s := &shelf{has: map[string]map[string]any{"1": {"data": int64(1)}}}
	p.Fetcher = s
	if out := p.Run(t.Context(), steps, world(t)); out.Failure != nil || s.reads != 1 {
		t.Errorf("want one read, got %d, %v", s.reads, out.Failure)
	}
}

// many is a Fetcher whose selectors match the same object many times.
type many struct{ object map[string]any }

func (m many) Resources(context.Context, *fnv1.ResourceSelector) ([]map[string]any, bool, error) {
	return slices.Repeat([]map[string]any{m.object}, 10), true, nil
}

func (m many) Schema(context.Context, *fnv1.SchemaSelector) (map[string]any, bool, error) {
	return nil, true, nil
}

// TestRequiredResourcesAreBounded requires more than a request can have, of one selector or of two.
func TestRequiredResourcesAreBounded(t *testing.T) {
	for size, names := range map[int][]string{2 << 20: {"a"}, 1 << 20: {"a", "b"}} {
		calls := 0
		p, steps := running(requiring(func(call int, _ *request) []string {
			calls = call
			return names
		}))
		p.Fetcher = many{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": strings.Repeat("x", size)}}
		got := p.Run(t.Context(), steps, world(t))
		var call *pipeline.CallError
		if got.Failure == nil || !errors.As(got.Failure, &call) || call.Code != "TooLarge" || !strings.Contains(call.Message, fmt.Sprintf("%q", names[len(names)-1])) || calls != 1 {
			t.Errorf("of %d bytes each: %d calls, %v", size, calls, got.Failure)
		}
	}
}

func TestRequirementsWithoutAFetcher(t *testing.T) {
	p, steps := running(requiring(func(int, *request) []string { return []string{"1"} }))
	if out := p.Run(t.Context(), steps, world(t)); out.Failure == nil {
		t.Error("want a failure")
	}
}
