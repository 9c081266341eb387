package operation_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// TestRetryAfterIsHonored has an external API return RetryAfter in errors of all methods.
func TestRetryAfterIsHonored(t *testing.T) {
	for said, want := range map[time.Duration]time.Duration{
		0: 0, -time.Minute: 0, 3 * time.Minute: 3 * time.Minute, 48 * time.Hour: 10 * time.Minute,
	} {
		refused := func(class external.Class) *external.OpError {
			return &external.OpError{Class: class, Code: "Throttled", RetryAfter: said}
		}
		open := func(verb external.Verb) operation.State {
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, Deleting: verb == external.Delete, ExternalName: "a"}, Now: start,
				DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"}, Requests: map[external.Verb]external.Request{},
				Binding: &binding.BindingSpec{
					Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingUpdating, Ref: "a", Attempts: 2,
					Operation: &binding.BindingOperation{Verb: string(verb), Attempt: 2, Resume: "op", StartedAt: metav1.NewMicroTime(start)},
				},
			}
			if verb == external.Create {
				s.Binding.Ref, s.Binding.AbsentBefore = "", &s.Binding.Operation.StartedAt
			}
			return s
		}
		cases := map[string]func() operation.State{
			"a look": func() operation.State {
				s := open(external.Update)
				s.Binding.Operation, s.ObserveErr = nil, fmt.Errorf("look: %w", refused(external.Ambiguous))
				return s
			},
			"what makes a request": func() operation.State {
				s := open(external.Update)
				s.PrepareErr = refused(external.Rejected)
				return s
			},
			"a call, with an error beside its answer": func() operation.State {
				s := open(external.Update)
				s.SetAnswer(external.Op{}, fmt.Errorf("update: %w", refused(external.Rejected)))
				return s
			},
			"a poll": func() operation.State {
				s := open(external.Update)
				s.SetPollAnswer(external.Op{}, refused(external.Rejected))
				return s
			},
		}
		for _, verb := range []external.Verb{external.Create, external.Update, external.Delete} {
			for _, class := range []external.Class{external.Rejected, external.Ambiguous, external.Failed} {
				cases[fmt.Sprintf("%s that is %d", verb, class)] = func() operation.State {
					s := open(verb)
					s.SetAnswer(external.Op{Err: refused(class)}, nil)
					return s
				}
			}
		}
		for name, of := range cases {
			t.Run(fmt.Sprintf("%s/%s", said, name), func(t *testing.T) {
				step := nextFinish(t, of())
				if step.Err == nil || step.After != want {
					t.Errorf("it rests for %s, with error %v", step.After, step.Err)
				}
			})
		}
	}
	if step := operation.Failure(errors.New("no")); step.After != 0 || step.Err == nil {
		t.Errorf("without a word about when it rests for %s", step.After)
	}
}

// TestTheDelayOfAPollIsBounded has an operation ask for the next poll in a day.
func TestTheDelayOfAPollIsBounded(t *testing.T) {
	s := operation.State{
		Resource: operation.Resource{HasFinalizer: true, ExternalName: "a"}, Now: start, DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"},
		Binding: &binding.BindingSpec{
			Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingUpdating, Ref: "a", Attempts: 2,
			Operation: &binding.BindingOperation{Verb: "Update", Attempt: 2, Resume: "op", StartedAt: metav1.NewMicroTime(start)},
		},
	}
	s.SetPollAnswer(external.Op{Resume: "op", RetryAfter: 24 * time.Hour}, nil)
	if step := operation.Next(s); step.Err != nil || step.After != 10*time.Minute {
		t.Errorf("it rests for %s, with error %v", step.After, step.Err)
	}
}

// nextFinish carries out steps until Finish, with an external API that has the resource.
func nextFinish(t *testing.T, s operation.State) operation.Step {
	t.Helper()
	for range 20 {
		switch step := operation.Next(s); step.Do {
		case operation.Finish:
			return step
		case operation.UpdateBinding:
			s.SetBinding(step.Binding)
		case operation.Observe:
			s.Observed = &external.Observation{Presence: external.Present, Ref: step.Ref, Mark: &external.Mark{ID: "m"}, UpToDate: external.No}
			if s.Binding.Ref == "" {
				s.Observed = &external.Observation{Presence: external.Absent}
			}
		case operation.Prepare:
			s.Requests[step.Verb] = nil
		default:
			t.Fatalf("the next step is %s", step.Do)
		}
	}
	t.Fatal("the reconcile does not end")
	return operation.Step{}
}
