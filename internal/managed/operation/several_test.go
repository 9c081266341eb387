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

// TestTheOwnerOfAResourceWithoutAMark has kinds with resources that get their mark after their
// creation, or never. The creation was rejected.
func TestTheOwnerOfAResourceWithoutAMark(t *testing.T) {
	cases := map[string]struct {
		marked, repeated bool
		want             operation.Do
		reason           string
	}{
		"the rejected creation had no effect, so the resource is another owner's":                {want: operation.Finish, reason: resource.Conflict},
		"a repetition may be rejected because the first call has arrived":                        {repeated: true, want: operation.UpdateBinding},
		"a resource without the mark that it would have from its creation on is another owner's": {marked: true, repeated: true, want: operation.Finish, reason: resource.Conflict},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			at := metav1.NewMicroTime(start.Add(-time.Minute))
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true}, Caps: external.Caps{Marked: tc.marked}, Now: start,
				DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"}, Requests: map[external.Verb]external.Request{},
				Binding: &binding.BindingSpec{
					Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingCreating, Attempts: 1, AbsentBefore: &at,
					Operation: &binding.BindingOperation{Verb: "Create", Attempt: 1, Repeated: tc.repeated, StartedAt: at},
				},
			}
			s.SetAnswer(external.Op{Err: &external.OpError{Class: external.Rejected, Code: "AlreadyExists"}}, nil)
			closed := operation.Next(s)
			if closed.Do != operation.UpdateBinding || closed.Binding.Operation != nil {
				t.Fatalf("the operation is not closed: %+v", closed)
			}
			s.SetBinding(closed.Binding)
			s.Observed = &external.Observation{Presence: external.Present, Ref: "a"}
			step := operation.Next(s)
			if step.Do != tc.want || step.Synced.Reason != tc.reason {
				t.Errorf("the next step is %s %+v", step.Do, step.Synced)
			}
		})
	}
}

// TestEachOfSeveralCallsIsPreparedSeparately has an update and a deletion take several calls,
// each of which depends on the result of the previous one.
func TestEachOfSeveralCallsIsPreparedSeparately(t *testing.T) {
	for _, verb := range []external.Verb{external.Update, external.Delete} {
		t.Run(string(verb), func(t *testing.T) {
			at := metav1.NewMicroTime(start)
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, Deleting: verb == external.Delete, ExternalName: "a"}, Now: start,
				DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"},
				Requests:   map[external.Verb]external.Request{verb: external.Request("the first")},
				Binding: &binding.BindingSpec{
					Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingBound, Ref: "a", Attempts: 2,
					Operation: &binding.BindingOperation{Verb: string(verb), Attempt: 2, Request: []byte("the first"), StartedAt: at},
				},
			}
			s.SetAnswer(external.Op{Done: true}, nil)
			s.SetBinding(operation.Next(s).Binding)
			s.Observed = &external.Observation{Presence: external.Present, Ref: "a", UpToDate: external.No}
			if step := operation.Next(s); step.Do != operation.Prepare || step.Verb != verb {
				t.Errorf("the next step is %s %s", step.Do, step.Verb)
			}
		})
	}
}

// TestConnectionDetailsThatACallChangesArePublished has a call change connection details, such as
// a password.
func TestConnectionDetailsThatACallChangesArePublished(t *testing.T) {
	at := metav1.NewMicroTime(start)
	s := operation.State{
		Resource: operation.Resource{HasFinalizer: true, ExternalName: "a"}, Now: start, ConnectionPublished: true,
		DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"},
		Binding: &binding.BindingSpec{
			Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingUpdating, Ref: "a", Attempts: 2,
			Operation: &binding.BindingOperation{Verb: "Update", Attempt: 2, StartedAt: at},
		},
	}
	s.SetAnswer(external.Op{Done: true}, nil)
	s.SetBinding(operation.Next(s).Binding)
	s.Observed = &external.Observation{Presence: external.Present, Ref: "a", UpToDate: external.Yes, Connection: map[string][]byte{"password": []byte("another")}}
	if step := operation.Next(s); step.Do != operation.PublishConnection {
		t.Errorf("the next step is %s", step.Do)
	}
}

// TestARejectedDeletionIsRepeated keeps a rejected deletion open as long as its request would be
// the same.
func TestARejectedDeletionIsRepeated(t *testing.T) {
	cases := map[string]struct {
		look     *external.Observation
		prepared string
		want     operation.Do
		closed   bool
	}{
		"the resource is observed, to compare the requests": {want: operation.Observe},
		"the request is prepared again":                     {look: &external.Observation{Presence: external.Present}, want: operation.Prepare},
		"the same request stays open, and is reported":      {look: &external.Observation{Presence: external.Present}, prepared: "drop it", want: operation.Finish},
		"another request is a new operation":                {look: &external.Observation{Presence: external.Present}, prepared: "drop it by force", want: operation.UpdateBinding, closed: true},
		"the operation is closed if the resource is absent": {look: &external.Observation{Presence: external.Absent}, want: operation.UpdateBinding, closed: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			at := metav1.NewMicroTime(start)
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, Deleting: true, ExternalName: "a"}, Now: start,
				DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"},
				Binding: &binding.BindingSpec{
					Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingDeleting, Ref: "a", Attempts: 2,
					Operation: &binding.BindingOperation{Verb: "Delete", Attempt: 2, Request: []byte("drop it"), StartedAt: at},
				},
			}
			s.SetAnswer(external.Op{Err: &external.OpError{Class: external.Rejected, Code: "DependencyViolation"}}, nil)
			if s.Observed = tc.look; tc.prepared != "" {
				s.Requests[external.Delete] = external.Request(tc.prepared)
			}
			step := operation.Next(s)
			if step.Do != tc.want || (tc.want == operation.UpdateBinding && (step.Binding.Operation == nil) != tc.closed) {
				t.Errorf("the next step is %s", step.Do)
			}
		})
	}
}

// TestACallWithoutVisibleEffectIsNotRepeatedAtOnce has a call succeed without a visible effect.
func TestACallWithoutVisibleEffectIsNotRepeatedAtOnce(t *testing.T) {
	cases := map[string]struct {
		settle   time.Duration
		prepared string
		want     operation.Do
		fails    bool
	}{
		"another call follows":                             {prepared: "the second", want: operation.UpdateBinding},
		"the effect of the same call may be visible later": {settle: time.Second, prepared: "the first", want: operation.Finish},
		"the same call had no effect":                      {prepared: "the first", want: operation.Finish, fails: true},
	}
	for name, tc := range cases {
		for _, verb := range []external.Verb{external.Update, external.Delete} {
			t.Run(string(verb)+"/"+name, func(t *testing.T) {
				at := metav1.NewMicroTime(start)
				s := operation.State{
					Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, Deleting: verb == external.Delete, ExternalName: "a"}, Now: start, Caps: external.Caps{Settle: tc.settle},
					DesiredKey: external.Key{Scope: "here", Type: "thing", Name: "a"},
					Binding: &binding.BindingSpec{
						Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingUpdating, Ref: "a", Attempts: 2,
						Operation: &binding.BindingOperation{Verb: string(verb), Attempt: 2, Request: []byte("the first"), StartedAt: at},
					},
				}
				s.SetAnswer(external.Op{Done: true}, nil)
				s.SetBinding(operation.Next(s).Binding)
				s.Observed = &external.Observation{Presence: external.Present, Ref: "a", UpToDate: external.No, Diff: "it is small"}
				s.Requests[verb] = external.Request(tc.prepared)
				step := operation.Next(s)
				if step.Do != tc.want || (step.Err != nil) != tc.fails {
					t.Errorf("the next step is %s, %+v, with error %v", step.Do, step.Synced, step.Err)
				}
			})
		}
	}
}
