package operation_test

import (
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
