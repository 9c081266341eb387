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

// lost is a state of a creation whose answer nobody has, of an API that assigns
// identities and knows neither tokens nor marks.
func lost() operation.State {
	at := metav1.NewMicroTime(start.Add(-time.Hour))
	return operation.State{
		Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true}, Caps: external.Caps{Naming: external.ProviderAssigned}, Now: start,
		Key: external.Key{Scope: "here", Type: "thing"}, MarkOwner: "us", Requests: map[external.Verb]external.Request{external.Create: nil},
		Binding: &binding.BindingSpec{
			Key: binding.BindingKey{Scope: "here", Type: "thing"}, Mark: "m", Phase: binding.BindingCreating, Attempts: 1,
			Operation:  &binding.BindingOperation{Verb: "Create", Attempt: 1, StartedAt: at},
			Unresolved: &binding.BindingUnresolved{Since: at, Message: "it can't be asked for"},
		},
	}
}

// TestAWrongNameResolvesNothing is about somebody who names a resource that isn't
// there, or is another's, as what a lost creation has made.
func TestAWrongNameResolvesNothing(t *testing.T) {
	looks := map[string]external.Observation{
		"there is none":        {Presence: external.Absent},
		"it is somebody's":     {Presence: external.Present, Ref: "id-9", Mark: &external.Mark{ID: "x", Owner: "them"}},
		"it is on its way out": {Presence: external.Deleting, Ref: "id-9"},
	}
	for name, look := range looks {
		for _, deleting := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				s := lost()
				s.Resource.Deleting, s.Resource.ExternalName, s.Binding.Explicit, s.Observed = deleting, "id-9", true, &look
				for range 10 {
					step := operation.Next(s)
					switch {
					case step.Do == operation.Begin:
						t.Fatal("it is created once more")
					case step.Do == operation.UpdateBinding && step.Binding.Operation == nil:
						t.Fatalf("the creation is closed, and nothing was known of it: %s", step.Binding.Phase)
					case step.Do == operation.UpdateBinding:
						s.SetBinding(step.Binding)
						continue
					case step.Do != operation.Finish:
						t.Fatalf("the next step is %s", step.Do)
					}
					return
				}
				t.Fatal("it doesn't rest")
			})
		}
	}
}

// TestARetryIsAskedForAfterwards is about an annotation that was there before the
// creation was begun that it is to repeat: nobody has looked for that one.
func TestARetryIsAskedForAfterwards(t *testing.T) {
	s := lost()
	s.Resource.Retry = "1"
	s.Binding.Operation, s.Binding.Unresolved, s.Binding.Phase, s.Binding.AbsentBefore = nil, nil, binding.BindingReserved, &metav1.MicroTime{Time: start}
	begun := operation.Next(s)
	if begun.Do != operation.UpdateBinding || begun.Binding.Operation == nil {
		t.Fatalf("the next step is %s", begun.Do)
	}
	s.SetBinding(begun.Binding)
	s.NotBegun = false // the process has died
	s.Requests = map[external.Verb]external.Request{external.Create: nil}
	parked := operation.Next(s)
	if parked.Do != operation.UpdateBinding || parked.Binding.Unresolved == nil || parked.Binding.Attempts != begun.Binding.Attempts {
		t.Fatalf("it isn't parked: %s %+v", parked.Do, parked.Binding)
	}
	s.SetBinding(parked.Binding)
	s.Resource.Retry = "2"
	if again := operation.Next(s); again.Do != operation.UpdateBinding || again.Binding.Attempts != begun.Binding.Attempts+1 {
		t.Errorf("it isn't tried again when that is asked for: %s %s", again.Do, again.Synced.Reason)
	}
	if s.Resource.Retry = "1"; operation.Next(s).Synced.Reason != resource.CreateUnresolved {
		t.Error("it isn't told")
	}
}

// TestASecondOneIsToldThatComesLate is about a token that isn't honoured any more when
// the first call arrives, on an API that shows everything at once.
func TestASecondOneIsToldThatComesLate(t *testing.T) {
	for n := 1; n < 12; n++ {
		l := newLife(external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true, TokenTTL: time.Second}, 0, policies("*"))
		l.crash, l.call = n, arrivesLate
		if died := l.pass(); !died {
			break
		}
		for range 3 {
			if err := l.settle(); err != nil {
				t.Error(err)
			}
			l.elapse(time.Minute)
		}
		if all := len(l.cloud.alive()); all > 1 && l.last.Synced.Reason != resource.Conflict {
			t.Errorf("after step %d there are %d, and it says %s", n, all, l.last.Synced.Reason)
		}
	}
}
