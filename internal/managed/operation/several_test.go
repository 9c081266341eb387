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

// TestWhoHasMadeWhatCarriesNoMark is about kinds whose resources are marked after
// their creation, or never, and whose creation was refused.
func TestWhoHasMadeWhatCarriesNoMark(t *testing.T) {
	cases := map[string]struct {
		marked, repeated bool
		want             operation.Do
		reason           string
	}{
		"a creation that is refused at once made nothing, so that what is there is another's": {want: operation.Finish, reason: resource.Conflict},
		"one that was made again may have been refused because the first has arrived":         {repeated: true, want: operation.UpdateBinding},
		"what would carry a mark from its creation on, and has none, is another's":            {marked: true, repeated: true, want: operation.Finish, reason: resource.Conflict},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			at := metav1.NewMicroTime(start.Add(-time.Minute))
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true}, Caps: external.Caps{Marked: tc.marked}, Now: start,
				Key: external.Key{Scope: "here", Type: "thing", Name: "a"}, Requests: map[external.Verb]external.Request{},
				Binding: &binding.BindingSpec{
					Key: binding.BindingKey{Scope: "here", Type: "thing", Name: "a"}, Mark: "m", Phase: binding.BindingCreating, Attempts: 1, AbsentBefore: &at,
					Operation: &binding.BindingOperation{Verb: "Create", Attempt: 1, Repeated: tc.repeated, StartedAt: at},
				},
			}
			s.SetAnswer(external.Op{Err: &external.OpError{Class: external.Rejected, Code: "AlreadyExists"}}, nil)
			closed := operation.Next(s)
			if closed.Do != operation.UpdateBinding || closed.Binding.Operation != nil {
				t.Fatalf("the operation isn't closed: %+v", closed)
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

// TestEachOfSeveralCallsIsPreparedAnew is about what takes several calls, each of
// which follows from what the one before it has left.
func TestEachOfSeveralCallsIsPreparedAnew(t *testing.T) {
	for _, verb := range []external.Verb{external.Update, external.Delete} {
		t.Run(string(verb), func(t *testing.T) {
			at := metav1.NewMicroTime(start)
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, Deleting: verb == external.Delete, ExternalName: "a"}, Now: start,
				Key:      external.Key{Scope: "here", Type: "thing", Name: "a"},
				Requests: map[external.Verb]external.Request{verb: external.Request("the first")},
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

// TestWhatACallHasChangedIsPublished is about connection details that a call changes,
// such as a password.
func TestWhatACallHasChangedIsPublished(t *testing.T) {
	at := metav1.NewMicroTime(start)
	s := operation.State{
		Resource: operation.Resource{HasFinalizer: true, ExternalName: "a"}, Now: start, ConnectionPublished: true,
		Key: external.Key{Scope: "here", Type: "thing", Name: "a"},
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

// TestARefusedDeletionIsAskedAgain is about a deletion that stays open, and what of
// its words stays.
func TestARefusedDeletionIsAskedAgain(t *testing.T) {
	cases := map[string]struct {
		look     *external.Observation
		prepared string
		want     operation.Do
		closed   bool
	}{
		"whether it would be the same is looked at": {want: operation.Observe},
		"and prepared":                                        {look: &external.Observation{Presence: external.Present}, want: operation.Prepare},
		"the same words stay, and are told":                   {look: &external.Observation{Presence: external.Present}, prepared: "drop it", want: operation.Finish},
		"others are asked anew":                               {look: &external.Observation{Presence: external.Present}, prepared: "drop it by force", want: operation.UpdateBinding, closed: true},
		"what has gone meanwhile needn't be asked for at all": {look: &external.Observation{Presence: external.Absent}, want: operation.UpdateBinding, closed: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			at := metav1.NewMicroTime(start)
			s := operation.State{
				Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, Deleting: true, ExternalName: "a"}, Now: start,
				Key: external.Key{Scope: "here", Type: "thing", Name: "a"},
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

// TestNothingIsMadeAgainAndAgain is about a call that has ended, and that doesn't
// show.
func TestNothingIsMadeAgainAndAgain(t *testing.T) {
	cases := map[string]struct {
		settle   time.Duration
		prepared string
		want     operation.Do
		fails    bool
	}{
		"another follows from it":                   {prepared: "the second", want: operation.UpdateBinding},
		"the same shows later, where things do":     {settle: time.Second, prepared: "the first", want: operation.Finish},
		"the same had no effect, where they do not": {prepared: "the first", want: operation.Finish, fails: true},
	}
	for name, tc := range cases {
		for _, verb := range []external.Verb{external.Update, external.Delete} {
			t.Run(string(verb)+"/"+name, func(t *testing.T) {
				at := metav1.NewMicroTime(start)
				s := operation.State{
					Resource: operation.Resource{HasFinalizer: true, DeletesExternal: true, Deleting: verb == external.Delete, ExternalName: "a"}, Now: start, Caps: external.Caps{Settle: tc.settle},
					Key: external.Key{Scope: "here", Type: "thing", Name: "a"},
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
