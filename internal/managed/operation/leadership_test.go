package operation_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// TestNothingIsBegunOnceTheLeadershipIsOver is about a process that stood still: what it
// goes on with is decided by what it knew before.
func TestNothingIsBegunOnceTheLeadershipIsOver(t *testing.T) {
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
		"a place isn't taken":        {"the managed resource may have gone, and another may want it", operation.State{}, operation.CreateBinding, operation.Finish},
		"a call isn't stored":        {"its successor may store another", operation.State{Binding: ready, Observed: absent, Requests: map[external.Verb]external.Request{external.Create: nil}}, operation.UpdateBinding, operation.Finish},
		"a stored call isn't made":   {"its successor may make it", operation.State{Binding: opened, NotBegun: true}, operation.Begin, operation.Finish},
		"what is there is looked at": {"that changes nothing", operation.State{Binding: ready}, operation.Observe, operation.Observe},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := tc.state
			s.Key, s.Now, s.Resource = key, start, operation.Resource{HasFinalizer: true, Policies: policies("OCUD")}
			for until, want := range map[time.Time]operation.Do{{}: tc.leads, start.Add(time.Second): tc.leads, start.Add(-time.Second): tc.over} {
				s.LeaderUntil = until
				if step := operation.Next(s); step.Do != want || (want == operation.Finish) != (step.After > 0) {
					t.Errorf("%s: until %s the next step is %s, after %s, and not %s", tc.reason, until, step.Do, step.After, want)
				}
			}
		})
	}
}
