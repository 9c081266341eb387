// Package operation decides, one step at a time, what to do about the external
// resource of a managed resource. Next is a function from what is known to the
// next step; whoever carries the step out adds what came of it and asks again,
// until there is nothing more to do for now. Nothing here acts, waits or forgets:
// what has to survive a crash is in the Binding, and every step is such that a
// crash right after it is recovered from by asking again.
//
// The contract: no call that changes something is made before the Binding holds
// exactly it; there is one open operation at most; an open operation is closed only
// on proof of what came of it; what isn't known changes nothing.
//
// Pure: it decides from values alone.
package operation

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Resource is what counts of a managed resource.
type Resource struct {
	Owner      binding.BindingOwner
	Generation int64
	// Deleting says that it is being deleted, Claimed that it carries our finalizer, and
	// KeptBy are others' finalizers, which go first.
	Deleting, Claimed bool
	KeptBy            []string
	// Paused says that somebody has paused it, by annotation.
	Paused   bool
	Policies resource.Policies
	// Deletes says that the external resource goes with it.
	Deletes bool
	// ExternalName is the annotation, Adopt whether an unmarked external resource
	// may be taken on, and Retry the latest request to try an unresolved creation
	// again.
	ExternalName string
	Adopt        bool
	Retry        string
	// Poll is how often the external resource is looked at.
	Poll time.Duration
}

// State is what is known in one pass over a managed resource.
type State struct {
	Resource Resource
	Caps     external.Caps
	// Key is what the resource would be kept under now, MarkOwner its text on the
	// external resource's mark.
	Key external.Key
	// KeyFrom is the annotation of the external name as it was when Key was made.
	KeyFrom   string
	MarkOwner string
	Now       time.Time
	// Until is until when no other process can be at the same work; zero for always.
	Until time.Time
	// Random is a fresh random text for a token or a mark.
	Random string

	// Binding is the stored one; nil if there is none.
	Binding *binding.BindingSpec
	// Taken is the binding of somebody else's that has the key, once reserving was
	// refused, and TakenAlive says that its managed resource exists.
	Taken      *binding.BindingSpec
	TakenAlive bool

	// The rest is what came of this pass's own steps.

	// Look is the latest observation, LookFailed why there is none.
	Look       *external.Observation
	LookFailed error
	// Searched says that Found holds all external resources of the mark.
	Searched bool
	Found    []external.Observation
	// Traced says that Traces holds all external resources of MarkOwner.
	Traced bool
	Traces []external.Observation
	// Requests holds what was prepared, and PrepareFailed why something wasn't.
	Requests      map[external.Verb]external.Request
	PrepareFailed error
	// Fresh says that the open operation was stored in this pass, and its call was
	// not made yet.
	Fresh bool
	// Again says that the call of the open operation is to be made once more, as was
	// stored in this pass, and Earlier when it was made before that.
	Again   bool
	Earlier metav1.MicroTime
	// Answer is what the external API said of the open operation in this pass.
	Answer *external.Op
	// Polled says that the answer is that of a poll.
	Polled bool
	// Made is what was asked for by the last call of this pass that ended well, and
	// MadeVerb how; empty if there was none.
	Made     external.Request
	MadeVerb external.Verb
	// Failed is the last error of a closed operation in this pass.
	Failed *external.OpError
	// Unreserved says that the Binding names an assigned identity, and that the second Binding
	// that reserves it is missing.
	Unreserved bool
	// IDReserved says that the assigned identity is ours alone, IDTaken by whom it
	// is kept otherwise.
	IDReserved bool
	IDTaken    *binding.BindingSpec
	// Projected, LateInitialized and Published say that this was seen to.
	Projected, LateInitialized, Published bool
}

// ref is the identity by which the external resource can be looked at: the one
// that is bound, or the name that we give it, or the one that somebody said.
func (s State) ref() external.Ref {
	switch {
	case s.Binding != nil && s.Binding.Ref != "":
		return external.Ref(s.Binding.Ref)
	case s.Binding != nil && s.Binding.Operation != nil && s.Binding.Operation.Ref != "":
		return external.Ref(s.Binding.Operation.Ref)
	case s.Caps.Naming == external.CallerAssigned:
		return external.Ref(s.key().Name)
	case s.Binding != nil && s.Binding.Explicit:
		return external.Ref(s.Resource.ExternalName)
	}
	return ""
}

// key is the key that was reserved, or else the one that would be.
func (s State) key() external.Key {
	if s.Binding != nil {
		return external.Key{Scope: s.Binding.Key.Scope, Type: s.Binding.Key.Type, Name: s.Binding.Key.Name}
	}
	return s.Key
}

// mark is the mark of the external resource.
func (s State) mark() external.Mark { return external.Mark{ID: s.Binding.Mark, Owner: s.MarkOwner} }

// intent is the open operation as it is asked of the external API.
func (s State) intent() *external.Intent {
	op := s.Binding.Operation
	return &external.Intent{
		Verb: external.Verb(op.Verb), Attempt: op.Attempt, Token: op.Token, Mark: s.mark(), Key: s.key(),
		Ref: external.Ref(s.Binding.Ref), Request: op.Request,
	}
}

// Answered takes what came of a call on the open operation. An error that the
// client didn't put into its answer says nothing about the effect. What was seen
// before the call is no longer so: what was prepared of it isn't what is to be asked
// next, and what was published may have changed.
func (s *State) Answered(op external.Op, err error) {
	if err != nil {
		op = external.Op{Err: &external.OpError{Class: external.Ambiguous, Message: err.Error()}}
		if said := (*external.OpError)(nil); errors.As(err, &said) {
			op.Err.RetryAfter = said.RetryAfter
		}
	}
	s.Polled, s.Again = false, false
	s.Fresh, s.Answer, s.Look, s.LookFailed, s.Found, s.Searched = false, &op, nil, nil, nil, false
	s.Requests, s.Published = map[external.Verb]external.Request{}, false
	if op.Err != nil && op.Err.Class != external.Ambiguous {
		s.Failed = op.Err
	}
	if op.Err == nil && op.Done {
		s.Made, s.MadeVerb = s.Binding.Operation.Request, external.Verb(s.Binding.Operation.Verb)
	}
}

// PolledFor takes what came of asking for the open operation.
func (s *State) PolledFor(op external.Op, err error) {
	s.Answered(op, err)
	s.Polled = true
}

// Stored takes what was stored in place of the binding.
func (s *State) Stored(next *binding.BindingSpec) {
	open := next.Operation
	s.Fresh = open != nil && (s.Binding == nil || s.Binding.Operation == nil || s.Binding.Operation.Attempt != open.Attempt)
	s.Answer, s.Again = nil, open != nil && open.RepeatedAt != nil && open.RepeatedAt.Time.Equal(s.Now)
	if s.Again && s.Binding.Operation != nil {
		s.Earlier = s.lastCall()
	}
	s.IDReserved, s.IDTaken = false, nil // of what is stored now
	s.Binding = next
}
