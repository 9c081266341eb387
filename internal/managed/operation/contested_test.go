package operation_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestWhatIsChangedBackTwiceIsContested makes the same update again and again, which succeeds without a
// lasting effect.
func TestWhatIsChangedBackTwiceIsContested(t *testing.T) {
	now := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	spec := &binding.BindingSpec{Phase: binding.BindingBound, Ref: "r", Mark: "m", Key: binding.BindingKey{Scope: "s", Type: "t", Name: "r"}}
	updates, contested := 0, 0
	answer := external.No
	observe := func(request string) operation.Step {
		s := operation.State{
			Resource:   operation.Resource{HasFinalizer: true, ExternalName: "r", PollInterval: time.Minute},
			DesiredKey: external.Key{Scope: "s", Type: "t", Name: "r"}, DesiredKeyAnnotation: "r", Now: now, Binding: spec, Random: "token",
			Requests: map[external.Verb]external.Request{external.Update: external.Request(request)},
			Observed: &external.Observation{Presence: external.Present, Ref: "r", Mark: &external.Mark{ID: "m"}, UpToDate: answer, Diff: "a differs", Ready: external.Yes},
		}
		step := operation.Next(s)
		switch {
		case step.Do == operation.UpdateBinding && step.Binding.Operation != nil:
			updates++
			s.SetBinding(step.Binding)
			s.SetAnswer(external.Op{Done: true}, nil)
			step = operation.Next(s)
			spec = step.Binding
		case step.Do == operation.UpdateBinding:
			spec = step.Binding
		case step.Synced.Reason == resource.Contested:
			contested++
		}
		now = now.Add(time.Minute)
		return step
	}
	for range 30 {
		observe("same")
	}
	if updates != 2 || contested != 28 {
		t.Fatalf("there are %d updates, and %d reports of a contest", updates, contested)
	}
	if step := observe("same"); !strings.Contains(step.Synced.Message, "a differs") || step.Ready.Status != metav1.ConditionTrue {
		t.Errorf("the report is %+v", step)
	}
	if observe("another"); updates != 3 {
		t.Error("a change of the spec is not sent")
	}
	observe("another")
	now = now.Add(time.Hour)
	if observe("another"); updates != 5 {
		t.Errorf("after an hour there are %d updates", updates)
	}
	answer = external.Yes
	observe("another")
	if spec.Ended.Reverted != 0 {
		t.Error("it still counts as contested, although nothing differs")
	}
}
