package pipeline_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// FuzzAnswers answers a pipeline whatever bytes decode to: it ends in exactly one of
// three ways, and never with a crash.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []*response{
		{},
		{Desired: &fnv1.State{Resources: map[string]*fnv1.Resource{"db": {Resource: object(f, `{"apiVersion":"v1","kind":"A","metadata":{"name":"x","labels":{"a":"b"}}}`)}}}},
		{Requirements: &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{"x": byName("v1", "A", "1")}}},
		{Results: []*fnv1.Result{{Severity: 1, Message: "no"}}, Conditions: []*fnv1.Condition{{Type: "Up"}}},
	} {
		data, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		answer := &response{}
		if proto.Unmarshal(data, answer) != nil {
			return
		}
		p, steps := running(
			func(*request) *response { return proto.CloneOf(answer) },
			func(r *request) *response { return on(r) },
		)
		p.Fetcher = &shelf{has: map[string]map[string]any{"1": {"data": int64(1)}}, unknown: "2"}
		out := p.Run(t.Context(), steps, world(t))
		ways := 0
		for _, way := range []bool{out.Desired != nil, out.Failure != nil, len(out.Pending) > 0} {
			if way {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("want one way to end, got %+v", out)
		}
	})
}
