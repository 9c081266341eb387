package composite

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// unsynced has objects that are read in the run after the one that has required them.
type unsynced struct {
	synced, required map[string]bool
	reads            int
}

func (u *unsynced) read(need plan.Need) plan.Lookup {
	if need.Scope {
		return plan.Lookup{Namespaced: true}
	}
	u.required[need.Name] = true
	if u.synced[need.Name] {
		return plan.Lookup{}
	}
	u.reads++
	return plan.Lookup{Unreadable: &plan.Unreadable{Problem: plan.Problem{Reason: plan.Syncing}}}
}

// sync ends a run: what it has required is read, and watched for the next one only.
func (u *unsynced) sync() { u.synced, u.required = u.required, map[string]bool{} }

// requires is a function that says at each call which ConfigMaps it requires, given those that it got.
type requires func(call, got int) []string

func (f requires) runner(calls *int) runner {
	return func(r *fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse {
		*calls++
		out := &fnv1.Requirements{Resources: map[string]*fnv1.ResourceSelector{}}
		for _, name := range f(*calls, len(r.GetRequiredResources())) {
			out.Resources[name] = &fnv1.ResourceSelector{ApiVersion: "v1", Kind: "ConfigMap", Match: &fnv1.ResourceSelector_MatchName{MatchName: name}}
		}
		object, _ := structpb.NewStruct(map[string]any{"apiVersion": "v1", "kind": "ConfigMap"})
		return &fnv1.RunFunctionResponse{Requirements: out, Desired: &fnv1.State{Resources: map[string]*fnv1.Resource{"store": {Resource: object}}}}
	}
}

type runner func(*fnv1.RunFunctionRequest) *fnv1.RunFunctionResponse

func (f runner) Run(_ context.Context, _ string, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	return f(r), nil
}

// TestRequirementsThatNeverSettleEnd although none of them is known in the run that requires it.
func TestRequirementsThatNeverSettleEnd(t *testing.T) {
	cases := map[string]struct {
		reason  string
		names   requires
		runs    int
		problem string
	}{
		"A function that requires something else at each call": {
			"it would be called forever, with a new watch each time",
			func(call, _ int) []string { return []string{fmt.Sprint(call)} }, 7, "did not stabilize after 6 calls",
		},
		"A function whose requirements lead to others": {
			"each run gets further than the one before",
			func(_, got int) []string { return []string{"1", "2", "3", "4", "5"}[:min(got+1, 5)] }, 6, "",
		},
		"A function that requires one object": {
			"it is called again when that is read", func(int, int) []string { return []string{"1"} }, 2, "",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			calls := 0
			c, u := composer(nil), &unsynced{required: map[string]bool{}}
			c.Runner = tc.names.runner(&calls)
			compose := func() plan.Desired {
				desired, err := instance.ComposeReading(t.Context(), c, plan.Facts{Instance: instanceOf()}, u.read)
				if err != nil {
					t.Fatal(err)
				}
				return desired
			}
			runs, desired := 1, compose()
			for ; desired.Problem.Reason == plan.Syncing && runs < 20; runs++ {
				u.sync()
				u.reads = 0
				desired = compose()
			}
			if runs != tc.runs {
				t.Errorf("%s: it ends after %d runs: %+v", tc.reason, runs, desired.Problem)
			}
			if tc.problem == "" {
				if desired.Problem.Reason != "" || len(desired.Nodes) != 1 {
					t.Errorf("%s: %+v", tc.reason, desired.Problem)
				}
				return
			}
			if desired.Problem.Reason != plan.PipelineFailed || !strings.Contains(desired.Problem.Message, tc.problem) {
				t.Errorf("%s: %+v", tc.reason, desired.Problem)
			}
			if u.reads != 0 || desired.RequeueAfter != fatalRetryInterval {
				t.Errorf("%d more objects are read, and the next run is in %s", u.reads, desired.RequeueAfter)
			}
		})
	}
}

// TestNoFunctionIsCalledAgainWhileWhatItRequiresIsRead has a run begin again once a required object has been read.
func TestNoFunctionIsCalledAgainWhileWhatItRequiresIsRead(t *testing.T) {
	calls := 0
	c := composer(nil)
	c.Runner = requires(func(int, int) []string { return []string{"1"} }).runner(&calls)
	for _, want := range []int{2, 3} { // at first it does not say what it requires
		desired, err := instance.ComposeReading(t.Context(), c, plan.Facts{Instance: instanceOf()}, contents{}.read)
		if err != nil || desired.Problem.Reason != "" || calls != want {
			t.Errorf("%d calls, want %d: %v, %+v", calls, want, err, desired.Problem)
		}
	}
}

func TestAnotherIncarnationRemembersNothing(t *testing.T) {
	memories := &Memories{}
	first, again := instanceOf(), instanceOf()
	again.SetUID("another")
	m := memories.of(first)
	if memories.of(first) != m || memories.of(again) == m {
		t.Error("a memory belongs to one incarnation")
	}
	memories.Forget(object.KeyOf(again))
	if len(memories.byKey) != 0 {
		t.Errorf("%d memories are left", len(memories.byKey))
	}
}
