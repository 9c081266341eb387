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

// TestAFailedCreationIsCalledOncePerReconcile has an external API accept creations and fail them,
// without an identity.
func TestAFailedCreationIsCalledOncePerReconcile(t *testing.T) {
	for name, caps := range map[string]external.Caps{
		"the caller assigns names":                    {},
		"the API assigns names and recognizes tokens": {Naming: external.ProviderAssigned, TokenTTL: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			at := metav1.NewMicroTime(start)
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true}, Caps: caps, Now: start, Requests: map[external.Verb]external.Request{},
				DesiredKey: external.Key{Scope: "here", Type: "thing"},
				Binding: &binding.BindingSpec{
					Key: binding.BindingKey{Scope: "here", Type: "thing"}, Mark: "m", Phase: binding.BindingCreating, Attempts: 1, AbsentBefore: &at,
					Operation: &binding.BindingOperation{Verb: "Create", Attempt: 1, StartedAt: at},
				},
			}
			if caps.Naming == external.CallerAssigned {
				s.DesiredKey.Name, s.Binding.Key.Name = "a", "a"
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
						t.Errorf("%d calls were made", begun)
					}
					if step.Err == nil {
						t.Errorf("the failure is not reported: %+v", step.Synced)
					}
					if caps.Naming == external.CallerAssigned && s.Binding.Operation != nil {
						t.Error("the operation stays open, although the resource is absent: its request could never be corrected")
					}
					return
				default:
					t.Fatalf("the next step is %s", step.Do)
				}
			}
			t.Errorf("the reconcile does not end, and has made %d calls", begun)
		})
	}
}

// TestAFailedSearchEndsTheReconcile has the search for a second resource fail.
func TestAFailedSearchEndsTheReconcile(t *testing.T) {
	for _, deleting := range []bool{false, true} {
		t.Run(fmt.Sprintf("deleting: %t", deleting), func(t *testing.T) {
			at := metav1.NewMicroTime(start.Add(-time.Hour))
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, Deleting: deleting, ExternalName: "id-1"}, Now: start,
				Caps: external.Caps{Naming: external.ProviderAssigned, Findable: true}, DesiredKey: external.Key{Scope: "here", Type: "thing"},
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
						t.Errorf("the error is not reported: %+v", step.Synced)
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
