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

// TestACreationThatFailsIsMadeOnceInAPass is about an API that takes creations on and
// fails them, without an identity.
func TestACreationThatFailsIsMadeOnceInAPass(t *testing.T) {
	for name, caps := range map[string]external.Caps{
		"named by us":               {},
		"named by it, with a token": {Naming: external.ProviderAssigned, TokenTTL: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			at := metav1.NewMicroTime(start)
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true}, Caps: caps, Now: start, Requests: map[external.Verb]external.Request{},
				Key: external.Key{Scope: "here", Type: "thing"},
				Binding: &binding.BindingSpec{
					Key: binding.BindingKey{Scope: "here", Type: "thing"}, Mark: "m", Phase: binding.BindingCreating, Attempts: 1, AbsentBefore: &at,
					Operation: &binding.BindingOperation{Verb: "Create", Attempt: 1, StartedAt: at},
				},
			}
			if caps.Naming == external.CallerAssigned {
				s.Key.Name, s.Binding.Key.Name = "a", "a"
			}
			s.NotBegun = true
			begun := 0
			for range 64 {
				switch step := operation.Next(s); step.Do {
				case operation.Begin:
					begun++
					s.SetAnswer(external.Op{Done: true, Err: &external.OpError{Class: external.Failed, Code: "QuotaExceeded"}}, nil)
				case operation.UpdateBinding:
					s.SetBinding(step.Binding)
				case operation.Observe:
					s.Observed = &external.Observation{Presence: external.Absent}
				case operation.Prepare:
					s.Requests[step.Verb] = external.Request("x")
				case operation.Finish:
					if begun != 1 {
						t.Errorf("it was called for %d times", begun)
					}
					if step.Err == nil {
						t.Errorf("the failure isn't told: %+v", step.Synced)
					}
					if caps.Naming == external.CallerAssigned && s.Binding.Operation != nil {
						t.Error("it stays open, though there is nothing of its name: what it asks for could never be mended")
					}
					return
				default:
					t.Fatalf("the next step is %s", step.Do)
				}
			}
			t.Errorf("it doesn't rest, and was called for %d times", begun)
		})
	}
}

// TestASearchThatFailsEndsThePass is about a doubt that can't be cleared now.
func TestASearchThatFailsEndsThePass(t *testing.T) {
	for _, deleting := range []bool{false, true} {
		t.Run(fmt.Sprintf("deleting: %t", deleting), func(t *testing.T) {
			at := metav1.NewMicroTime(start.Add(-time.Hour))
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, Deleting: deleting, ExternalName: "id-1"}, Now: start,
				Caps: external.Caps{Naming: external.ProviderAssigned, Findable: true}, Key: external.Key{Scope: "here", Type: "thing"},
				Binding: &binding.BindingSpec{Key: binding.BindingKey{Scope: "here", Type: "thing"}, Mark: "m", Phase: binding.BindingBound, Ref: "id-1", Attempts: 2, Doubted: &at},
			}
			searches := 0
			for range 64 {
				switch step := operation.Next(s); step.Do {
				case operation.Observe:
					s.Observed = &external.Observation{Presence: external.Present, Ref: "id-1"}
				case operation.FindByMark:
					searches++
					s.ObserveErr = errors.New("it is down")
				case operation.Finish:
					if step.Err == nil {
						t.Errorf("it isn't told: %+v", step.Synced)
					}
					return
				default:
					t.Fatalf("the next step is %s", step.Do)
				}
			}
			t.Errorf("it searches %d times", searches)
		})
	}
}
