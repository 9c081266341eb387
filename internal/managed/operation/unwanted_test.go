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

// TestACallIsNotRepeatedThatIsNotWantedAnyMore is about policies that change while an
// operation is open: what was asked is found out, and not asked again.
func TestACallIsNotRepeatedThatIsNotWantedAnyMore(t *testing.T) {
	there := external.Observation{Presence: external.Present, Ref: "a", UpToDate: external.No, Mark: &external.Mark{ID: "m"}}
	cases := map[string]struct {
		verb     external.Verb
		deleting bool
		look     external.Observation
		phase    binding.BindingPhase
	}{
		"a creation isn't, once it is only to be looked at": {verb: external.Create, phase: binding.BindingReserved, look: external.Observation{Presence: external.Absent}},
		"an update isn't": {verb: external.Update, phase: binding.BindingBound, look: there},
		"a deletion isn't, once the external resource is to stay": {verb: external.Delete, deleting: true, phase: binding.BindingBound, look: there},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			at := metav1.NewMicroTime(start.Add(-time.Minute))
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, Deleting: tc.deleting, Policies: policies("O"), ExternalName: "a"}, Now: start,
				Caps: external.Caps{Marked: true}, Key: external.Key{Scope: "here", Type: "thing", Name: "a"}, Observed: &tc.look,
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
				t.Errorf("it isn't waited for what may be on its way: %s", step.Do)
			}
		})
	}
}

// TestALateCallIsWaitedForThoughARepetitionIsRefused deletes while the first call of a
// creation is on its way, whose repetition was refused: that says nothing of the first.
func TestALateCallIsWaitedForThoughARepetitionIsRefused(t *testing.T) {
	for class, c := range classes {
		if c.caps.Naming != external.CallerAssigned {
			continue
		}
		t.Run(class, func(t *testing.T) {
			for n := 1; n < 12; n++ {
				l := newLife(c.caps, c.async, policies("OCUD"))
				l.crash, l.call, l.throttle = n, arrivesLate, 1
				if died := l.pass(); !died {
					break
				}
				l.crash, l.cloud.busy = 0, 1
				l.pass() // the repetition is refused
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

// TestALateCallBringsNothingBack deletes what a repeated call has made, while the first call
// of its creation is on its way.
func TestALateCallBringsNothingBack(t *testing.T) {
	for class, c := range classes {
		if c.caps.Naming != external.CallerAssigned {
			continue
		}
		t.Run(class, func(t *testing.T) {
			late := 0
			for n := 1; n < 12; n++ {
				l := newLife(c.caps, c.async, policies("OCUD"))
				l.crash, l.call = n, arrivesLate
				if died := l.pass(); !died {
					break
				}
				late += len(l.onTheWay)
				l.crash = 0
				l.pass() // the repetition makes it
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

// TestReadyIsWhatWasSeen is about an update that is found out, while what is there
// isn't ready any more.
func TestReadyIsWhatWasSeen(t *testing.T) {
	at := metav1.NewMicroTime(start)
	s := operation.State{
		Resource: operation.Resource{HasFinalizer: true, ExternalName: "a"}, Now: start, Key: external.Key{Scope: "here", Type: "thing", Name: "a"},
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
