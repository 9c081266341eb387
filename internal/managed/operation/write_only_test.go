package operation_test

import (
	"strings"
	"testing"
	"time"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// bound is a managed resource whose external resource exists, and is as it should be as far as an observation shows.
type bound struct {
	binding *binding.BindingSpec
	digest  string
	now     time.Time
	answer  external.Op
	// policies are all by default.
	policies resource.Policies
	updates  int
}

// reconcile makes the steps of one reconcile, and returns the last one.
func (b *bound) reconcile(t *testing.T) operation.Step {
	t.Helper()
	b.now = b.now.Add(time.Hour)
	s := operation.State{
		Resource:   operation.Resource{HasFinalizer: true, ExternalName: "r", PollInterval: time.Minute, Policies: b.policies},
		DesiredKey: external.Key{Scope: "s", Type: "t", Name: "r"}, DesiredKeyAnnotation: "r", Random: "token", Now: b.now,
		WriteOnlyDigest: b.digest, Binding: b.binding, Requests: map[external.Verb]external.Request{},
	}
	for range 20 {
		step := operation.Next(s)
		switch step.Do {
		case operation.Observe:
			s.Observed = &external.Observation{Presence: external.Present, Ref: "r", Mark: &external.Mark{ID: "m"}, UpToDate: external.Yes, Ready: external.Yes}
		case operation.Prepare:
			s.Requests[step.Verb] = external.Request(b.digest)
		case operation.UpdateBinding:
			s.SetBinding(step.Binding)
		case operation.Begin:
			b.updates++
			s.SetAnswer(b.answer, nil)
		case operation.Finish:
			b.binding = s.Binding
			return step
		default:
			t.Fatalf("unexpected step %s", step.Do)
		}
	}
	t.Fatal("the reconcile does not end")
	return operation.Step{}
}

// TestWriteOnlyValuesAreSentWhenTheyChange has a resource whose write-only values no observation shows.
func TestWriteOnlyValuesAreSentWhenTheyChange(t *testing.T) {
	b := &bound{
		binding: &binding.BindingSpec{Phase: binding.BindingBound, Ref: "r", Mark: "m", Key: binding.BindingKey{Scope: "s", Type: "t", Name: "r"}, WriteOnlyDigest: "first"},
		digest:  "first", now: start, answer: external.Op{Done: true},
	}
	expect := func(when string, updates int) operation.Step {
		t.Helper()
		step := b.reconcile(t)
		if b.updates != updates {
			t.Fatalf("%s: %d updates, want %d", when, b.updates, updates)
		}
		return step
	}
	expect("nothing has changed", 0)
	b.digest = "second"
	expect("the values have changed", 1)
	expect("they were sent", 1)
	b.digest = "third"
	b.answer = external.Op{Done: true, Err: &external.OpError{Class: external.Failed, Message: "no"}}
	expect("the update fails", 2)
	b.answer = external.Op{Done: true}
	expect("they were not sent yet", 3)
	b.digest = "lost"
	b.binding.Operation = &binding.BindingOperation{Verb: string(external.Update), Attempt: 4, Token: "t", WriteOnlyDigest: "lost"}
	expect("the process has died before or after the update was sent", 4)
	expect("they were sent", 4)
	b.updates, b.binding.WriteOnlyDigest = 3, "third"
	b.digest = ""
	expect("there are none any more", 3)
	b.digest = "third"
	expect("they are as they were sent last", 3)
	b.digest, b.policies = "fourth", resource.Policies{resource.ActionObserve, resource.ActionCreate, resource.ActionDelete}
	if step := expect("updates are not allowed", 3); !strings.Contains(step.Synced.Message, "does not return can differ") {
		t.Errorf("the message is %q", step.Synced.Message)
	}
	b.policies, b.binding.WriteOnlyDigest = nil, ""
	expect("it is unknown which values an adopted resource has", 4)
	expect("they were sent once", 4)
}

// TestACreationSendsWriteOnlyValues has a creation that succeeds, and one that fails and leaves a resource.
func TestACreationSendsWriteOnlyValues(t *testing.T) {
	failed := &external.OpError{Class: external.Failed, Message: "no"}
	for name, tc := range map[string]struct {
		answer external.Op
		want   string
	}{
		"after a success, they were sent":                         {external.Op{Done: true, Ref: "r"}, "digest"},
		"after a failure it is unknown which values were applied": {external.Op{Done: true, Ref: "r", Err: failed}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true}, DesiredKey: external.Key{Scope: "s", Type: "t", Name: "r"}, Random: "token", Now: start,
				WriteOnlyDigest: "digest", Requests: map[external.Verb]external.Request{external.Create: external.Request("x")},
				Observed: &external.Observation{Presence: external.Absent},
			}
			for range 20 {
				step := operation.Next(s)
				switch step.Do {
				case operation.CreateBinding, operation.UpdateBinding:
					s.SetBinding(step.Binding)
				case operation.Begin:
					s.SetAnswer(tc.answer, nil)
				default:
					t.Fatalf("unexpected step %s", step.Do)
				}
				if s.Binding != nil && s.Binding.Phase == binding.BindingBound {
					break
				}
			}
			if s.Binding.Ref != "r" || s.Binding.WriteOnlyDigest != tc.want {
				t.Errorf("the Binding has the identity %q and the digest %q, want %q", s.Binding.Ref, s.Binding.WriteOnlyDigest, tc.want)
			}
		})
	}
}
