package operation_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// TestNoCallBeginsAfterLeadership has a process that was suspended decide on old state.
func TestNoCallBeginsAfterLeadership(t *testing.T) {
	key := external.Key{Scope: "here", Type: "thing", Name: "a"}
	spec := &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingReserved}
	at := metav1.NewMicroTime(start)
	opened := spec.DeepCopy()
	opened.AbsentBefore, opened.Attempts = &at, 1
	opened.Operation = &binding.BindingOperation{Verb: string(external.Create), Attempt: 1, StartedAt: at}
	absent := &external.Observation{Presence: external.Absent}
	ready := spec.DeepCopy()
	ready.AbsentBefore = &at
	cases := map[string]struct {
		reason string
		state  operation.State
		leads  operation.Do
		over   operation.Do
	}{
		"a key is not reserved":     {"the managed resource may be deleted, and another one may need the key", operation.State{}, operation.CreateBinding, operation.Finish},
		"a call is not stored":      {"the next leader may store another one", operation.State{Binding: ready, Observed: absent, Requests: map[external.Verb]external.Request{external.Create: nil}}, operation.UpdateBinding, operation.Finish},
		"a stored call is not made": {"the next leader may make it", operation.State{Binding: opened, NotBegun: true}, operation.Begin, operation.Finish},
		"the resource is observed":  {"that changes nothing", operation.State{Binding: ready}, operation.Observe, operation.Observe},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := tc.state
			s.DesiredKey, s.Now, s.Resource = key, start, operation.Resource{HasFinalizer: true, Policies: policies("OCUD")}
			for until, want := range map[time.Time]operation.Do{{}: tc.leads, start.Add(time.Second): tc.leads, start.Add(-time.Second): tc.over} {
				s.LeaderUntil = until
				if step := operation.Next(s); step.Do != want || (want == operation.Finish) != (step.After > 0) {
					t.Errorf("%s: until %s the next step is %s, after %s, and not %s", tc.reason, until, step.Do, step.After, want)
				}
			}
		})
	}
}

// TestASupersededLeaderChangesNothing has two processes that each take themselves for the leader.
func TestASupersededLeaderChangesNothing(t *testing.T) {
	at := metav1.NewMicroTime(start)
	spec := &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingReserved, AbsentBefore: &at}
	state := func(recorded *binding.BindingLeader, leader binding.BindingLeader) operation.State {
		known := spec.DeepCopy()
		known.Leader = recorded
		return operation.State{
			DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"}, Now: start, Resource: operation.Resource{HasFinalizer: true, Policies: policies("OCUD")},
			Binding: known, Observed: &external.Observation{Presence: external.Absent}, Requests: map[external.Verb]external.Request{external.Create: nil}, Leader: leader,
		}
	}
	former, own := &binding.BindingLeader{Holder: "former", Epoch: 3}, binding.BindingLeader{Holder: "own", Epoch: 4}
	cases := map[string]struct {
		recorded *binding.BindingLeader
		leader   binding.BindingLeader
		want     operation.Do
	}{
		"Nobody has written it as the leader":      {nil, own, operation.UpdateBinding},
		"A former leader has":                      {former, own, operation.UpdateBinding},
		"This process has":                         {&own, own, operation.UpdateBinding},
		"This process has, as leader before":       {&binding.BindingLeader{Holder: "own", Epoch: 2}, own, operation.UpdateBinding},
		"A later leader has":                       {&binding.BindingLeader{Holder: "later", Epoch: 5}, own, operation.Finish},
		"Another process has, of the same epoch":   {&binding.BindingLeader{Holder: "other", Epoch: 4}, own, operation.Finish},
		"The controllers elect no leader any more": {former, binding.BindingLeader{}, operation.UpdateBinding},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			step := operation.Next(state(tc.recorded, tc.leader))
			if step.Do != tc.want || step.Do == operation.Finish && (step.After == 0 || !strings.Contains(step.Synced.Message, tc.recorded.Holder)) {
				t.Fatalf("got %+v", step)
			}
			if step.Do == operation.UpdateBinding && tc.leader.Holder != "" && *step.Binding.Leader != tc.leader {
				t.Errorf("the Binding records %+v", step.Binding.Leader)
			}
		})
	}
	later := &binding.BindingLeader{Holder: "later", Epoch: 5}
	unrecorded := state(later, own)
	unrecorded.Binding.AbsentBefore = nil // the next write would open no operation
	if got := operation.Next(unrecorded); got.Do != operation.Finish {
		t.Errorf("it writes the Binding of a later leader: %+v", got)
	}
	unobserved := state(later, own)
	unobserved.Observed = nil
	if got := operation.Next(unobserved); got.Do != operation.Observe {
		t.Errorf("it does not observe: %+v", got)
	}
}
