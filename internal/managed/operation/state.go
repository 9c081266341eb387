// Package operation decides, one step at a time, what to do about the external
// resource of a managed resource. Next is a function from the known state to the
// next step. The caller carries the step out, adds its result to the state and calls
// Next again, until the step is Finish. The package does no I/O and keeps no state:
// what has to survive a crash is in the Binding, and after a crash in any step,
// Next continues from what is stored.
// See docs/design/0007-managed-resources.md.
//
// The contract: a call that changes something is stored in the Binding before it is
// made; at most one operation is open; an open operation is closed only on proof of
// its outcome; what is unknown changes nothing.
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

// Resource is the part of a managed resource that decisions depend on.
type Resource struct {
	Owner      binding.BindingOwner
	Generation int64
	// Deleting reports whether it has a deletion timestamp, HasFinalizer whether it has our finalizer. OtherFinalizers
	// are all further ones, which have to be removed first.
	Deleting, HasFinalizer bool
	OtherFinalizers        []string
	// Paused reports whether it has the annotation that pauses it.
	Paused   bool
	Policies resource.Policies
	// DeletesExternal reports whether the external resource is deleted with it.
	DeletesExternal bool
	// ExternalName is the external-name annotation. AdoptUnmarked reports whether an external
	// resource without a mark may be adopted. Retry is the latest request to repeat an
	// unresolved creation.
	ExternalName  string
	AdoptUnmarked bool
	Retry         string
	// PollInterval is how often the external resource is observed without an event. The interval
	// grows up to MaxPollInterval the longer nothing changes, and is shorter after a change until
	// the external resource is ready; with 0, it stays the same.
	PollInterval, MaxPollInterval time.Duration
	// ChangedAt is when the managed resource was created or its condition Synced or Ready has changed, or zero if the
	// generation has changed after the last report.
	ChangedAt time.Time
}

// State is what is known in one reconcile of a managed resource.
type State struct {
	Resource Resource
	Caps     external.Caps
	// DesiredKey is the key of the external resource that follows from the managed resource as
	// it is now; the Binding has the key that was reserved. DesiredKeyAnnotation is the value of
	// the external-name annotation when DesiredKey was computed.
	DesiredKey           external.Key
	DesiredKeyAnnotation string
	// WriteOnlyDigest is the digest of the wanted values that an observation does not show; empty without any.
	WriteOnlyDigest string
	// MarkOwner identifies the managed resource on the external resource's mark.
	MarkOwner string
	Now       time.Time
	// LeaderUntil is how long this process is certain to be the only leader; zero without leader election.
	LeaderUntil time.Time
	// Leader is this process and its epoch; its holder is empty without leader election.
	Leader binding.BindingLeader
	// Random is a fresh random text for a token or a mark.
	Random string

	// Binding is the stored binding; nil if there is none.
	Binding *binding.BindingSpec
	// ReservedBy is another managed resource's binding that has reserved the key; nil unless
	// CreateBinding has met it.
	ReservedBy *binding.BindingSpec

	// The following fields are results of this reconcile's steps.

	// Observed is the latest observation; ObserveErr is the error of the latest Observe,
	// FindByMark or FindByOwner.
	Observed   *external.Observation
	ObserveErr error
	// SearchedByMark reports whether FoundByMark holds all external resources of the mark.
	SearchedByMark bool
	FoundByMark    []external.Observation
	// SearchedByOwner reports whether FoundByOwner holds all external resources of MarkOwner.
	SearchedByOwner bool
	FoundByOwner    []external.Observation
	// Requests are the prepared requests; PrepareErr is the error of the latest Prepare.
	Requests   map[external.Verb]external.Request
	PrepareErr error
	// Replaced reports whether this reconcile has released the Binding of an external resource that another client has
	// replaced: whether our client may use that one is known only with the stored Binding.
	Replaced bool
	// NotBegun reports whether the open operation was stored in this reconcile and its call
	// was not made yet.
	NotBegun bool
	// RepeatStored reports whether this reconcile has stored that the open operation's call
	// is repeated. PreviousCall is when the call was made before.
	RepeatStored bool
	PreviousCall metav1.MicroTime
	// Answer is the external API's answer about the open operation in this reconcile.
	Answer *external.Op
	// Polled reports whether Answer comes from a poll.
	Polled bool
	// LastRequest and LastVerb are of the last call that succeeded in this reconcile; empty if none did.
	LastRequest external.Request
	LastVerb    external.Verb
	// OperationErr is the last error of an operation in this reconcile with a known outcome.
	OperationErr *external.OpError
	// ReservationMissing reports whether the Binding names an assigned identity, and the
	// second Binding that reserves it is missing.
	ReservationMissing bool
	// IdentityReserved reports whether this reconcile has reserved the assigned identity.
	// IdentityReservedBy is another managed resource's binding that has reserved it before.
	IdentityReserved   bool
	IdentityReservedBy *binding.BindingSpec
	// ExternalNameSet, LateInitialized and ConnectionPublished report that this reconcile has
	// carried out the step.
	ExternalNameSet, LateInitialized, ConnectionPublished bool
}

// The external resource can be observed by this identity: the bound one, the name that we choose, or the one from the
// annotation.
func (s State) ref() external.Ref {
	switch {
	case s.Binding != nil && s.Binding.Ref != "":
		return external.Ref(s.Binding.Ref)
	case s.Binding != nil && s.Binding.Operation != nil && s.Binding.Operation.Ref != "":
		return external.Ref(s.Binding.Operation.Ref)
	case s.Caps.Naming == external.CallerAssigned:
		return external.Ref(s.reservedKey().Name)
	case s.Binding != nil && s.Binding.Explicit:
		return external.Ref(s.Resource.ExternalName)
	}
	return ""
}

// reservedKey is the reserved key, or else the one that would be reserved.
func (s State) reservedKey() external.Key {
	if s.Binding != nil {
		return external.Key{Scope: s.Binding.Key.Scope, Type: s.Binding.Key.Type, Name: s.Binding.Key.Name}
	}
	return s.DesiredKey
}

func (s State) mark() external.Mark { return external.Mark{ID: s.Binding.Mark, Owner: s.MarkOwner} }

func (s State) intent() *external.Intent {
	op := s.Binding.Operation
	return &external.Intent{
		Verb: external.Verb(op.Verb), Attempt: op.Attempt, Token: op.Token, Mark: s.mark(), Key: s.reservedKey(),
		Ref: external.Ref(s.Binding.Ref), Request: op.Request,
	}
}

// SetAnswer records the answer to a call of the open operation. If the client returns an
// error instead of an answer, the outcome of the call is unknown. Observations and prepared
// requests from before the call are dropped, and connection details may have changed.
func (s *State) SetAnswer(op external.Op, err error) {
	if err != nil {
		op = external.Op{Err: &external.OpError{Class: external.Ambiguous, Message: err.Error()}}
		if opErr := (*external.OpError)(nil); errors.As(err, &opErr) {
			op.Err.RetryAfter = opErr.RetryAfter
		}
	}
	s.Polled, s.RepeatStored = false, false
	s.NotBegun, s.Answer, s.Observed, s.ObserveErr, s.FoundByMark, s.SearchedByMark = false, &op, nil, nil, nil, false
	s.Requests, s.ConnectionPublished = map[external.Verb]external.Request{}, false
	if op.Err != nil && op.Err.Class != external.Ambiguous {
		s.OperationErr = op.Err
	}
	if op.Err == nil && op.Done {
		s.LastRequest, s.LastVerb = s.Binding.Operation.Request, external.Verb(s.Binding.Operation.Verb)
	}
}

// SetPollAnswer records the answer to a poll of the open operation.
func (s *State) SetPollAnswer(op external.Op, err error) {
	s.SetAnswer(op, err)
	s.Polled = true
}

// SetBinding records the binding that was stored.
func (s *State) SetBinding(next *binding.BindingSpec) {
	open := next.Operation
	s.NotBegun = open != nil && (s.Binding == nil || s.Binding.Operation == nil || s.Binding.Operation.Attempt != open.Attempt)
	s.Answer, s.RepeatStored = nil, open != nil && open.RepeatedAt != nil && open.RepeatedAt.Time.Equal(s.Now)
	if s.RepeatStored && s.Binding.Operation != nil {
		s.PreviousCall = s.lastCall()
	}
	s.IdentityReserved, s.IdentityReservedBy = false, nil // both are about the former binding
	s.Replaced = s.Binding != nil && s.Binding.Ref != "" && next.Ref == "" && s.Observed != nil && s.Observed.Presence == external.Present
	s.Binding = next
}
