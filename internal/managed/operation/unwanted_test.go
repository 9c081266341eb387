package operation_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestAnUnwantedCallIsNotRepeated changes the policies while an operation is open: its outcome is
// determined, and its call is not repeated.
func TestAnUnwantedCallIsNotRepeated(t *testing.T) {
	there := external.Observation{Presence: external.Present, Ref: "a", UpToDate: external.No, Mark: &external.Mark{ID: "m"}}
	cases := map[string]struct {
		verb     external.Verb
		deleting bool
		look     external.Observation
		phase    binding.BindingPhase
	}{
		"a creation, if only Observe is allowed":           {verb: external.Create, phase: binding.BindingReserved, look: external.Observation{Presence: external.Absent}},
		"an update, if only Observe is allowed":            {verb: external.Update, phase: binding.BindingBound, look: there},
		"a deletion, if the external resource is orphaned": {verb: external.Delete, deleting: true, phase: binding.BindingBound, look: there},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			at := metav1.NewMicroTime(start.Add(-time.Minute))
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, Deleting: tc.deleting, Policies: policies("O"), ExternalName: "a"}, Now: start,
				Caps: external.Caps{Marked: true}, DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"}, Observed: &tc.look,
				Binding: &binding.BindingSpec{
					Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Attempts: 2,
					Operation: &binding.BindingOperation{Verb: string(tc.verb), Attempt: 2, StartedAt: at, Repeated: true},
				},
			}
			if tc.verb != external.Create {
				s.Binding.Ref = "a"
			}
			step := operation.Next(s)
			if step.Do != operation.UpdateBinding || step.Binding.Operation != nil || step.Binding.Phase != tc.phase {
				t.Fatalf("the next step is %s %+v", step.Do, step.Synced)
			}
			s.Binding.Operation.StartedAt = metav1.NewMicroTime(start)
			if step := operation.Next(s); step.Do != operation.Finish || step.After == 0 {
				t.Errorf("it does not wait for calls in flight: %s", step.Do)
			}
		})
	}
}

// TestADeletionWaitsForALateCallDespiteARejectedRepetition deletes a managed resource while the
// first call of its creation is in flight and its repetition was rejected, which says nothing
// about the first call.
func TestADeletionWaitsForALateCallDespiteARejectedRepetition(t *testing.T) {
	for class, c := range classes {
		if c.caps.Naming != external.CallerAssigned {
			continue
		}
		t.Run(class, func(t *testing.T) {
			for n := 1; n < 12; n++ {
				l := newSimulation(c.caps, c.async, policies("OCUD"))
				l.crash, l.call, l.throttle = n, arrivesLate, 1
				if died := l.reconcile(); !died {
					break
				}
				l.crash, l.cloud.busy = 0, 1
				l.reconcile() // the repetition is refused
				l.resource.Deleting = true
				if err := l.settle(); err != nil {
					t.Error(err)
				}
				l.elapse(time.Minute)
				if left := len(l.cloud.alive()); left > 0 {
					t.Fatalf("after step %d: it is gone: %t, and %d external resources are left:\n%v", n, l.gone, left, l.log)
				}
			}
		})
	}
}

// TestALateCallDoesNotRecreateADeletedResource deletes the resource of a repeated creation while
// the first call is in flight.
func TestALateCallDoesNotRecreateADeletedResource(t *testing.T) {
	for class, c := range classes {
		if c.caps.Naming != external.CallerAssigned {
			continue
		}
		t.Run(class, func(t *testing.T) {
			late := 0
			for n := 1; n < 12; n++ {
				l := newSimulation(c.caps, c.async, policies("OCUD"))
				l.crash, l.call = n, arrivesLate
				if died := l.reconcile(); !died {
					break
				}
				late += len(l.delayed)
				l.crash = 0
				l.reconcile() // the repetition makes it
				l.resource.Deleting = true
				if err := l.settle(); err != nil {
					t.Error(err)
				}
				l.elapse(time.Minute)
				if left := len(l.cloud.alive()); left > 0 {
					t.Fatalf("after step %d: it is gone: %t, and %d external resources are left:\n%v", n, l.gone, left, l.log)
				}
			}
			if late == 0 {
				t.Error("no call was on its way")
			}
		})
	}
}

// TestReadyFollowsTheObservation has an open update of an external resource that is not ready any
// more.
func TestReadyFollowsTheObservation(t *testing.T) {
	at := metav1.NewMicroTime(start)
	s := operation.State{
		Resource: operation.Resource{HasFinalizer: true, ExternalName: "a"}, Now: start, DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"},
		Observed: &external.Observation{Presence: external.Present, Ref: "a", UpToDate: external.CannotTell, Ready: external.No, State: "UPDATING"},
		Binding: &binding.BindingSpec{
			Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Ref: "a", Attempts: 2,
			Operation: &binding.BindingOperation{Verb: "Update", Attempt: 2, StartedAt: at},
		},
	}
	if step := operation.Next(s); step.Ready.Reason != resource.Unavailable {
		t.Errorf("Ready says %+v", step.Ready)
	}
}
