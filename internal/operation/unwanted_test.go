package operation_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
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
				Resource: operation.Resource{Claimed: true, Deleting: tc.deleting, Policies: policies("O"), ExternalName: "a"}, Now: start,
				Caps: external.Caps{Marked: true}, Key: external.Key{Scope: "here", Type: "thing", Name: "a"}, Look: &tc.look,
				Binding: &binding.BindingSpec{
					Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Attempts: 2,
					Operation: &binding.BindingOperation{Verb: string(tc.verb), Attempt: 2, StartedAt: at, Repeated: true},
				},
			}
			if tc.verb != external.Create {
				s.Binding.Ref = "a"
			}
			step := operation.Next(s)
			if step.Do != operation.Record || step.Binding.Operation != nil || step.Binding.Phase != tc.phase {
				t.Fatalf("the next step is %s %+v", step.Do, step.Synced)
			}
			s.Binding.Operation.StartedAt = metav1.NewMicroTime(start)
			if step := operation.Next(s); step.Do != operation.Rest || step.After == 0 {
				t.Errorf("it isn't waited for what may be on its way: %s", step.Do)
			}
		})
	}
}
