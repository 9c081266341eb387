// Package execute carries out the steps that package operation decides on: calls of the external API go to the
// provider's client, and writes that have to survive a crash go to a Store. The controller has a Store on an API
// server. The conformance kit has one in memory, so it tests a client with the code that serves it. See
// docs/design/0007-managed-resources.md.
package execute

import (
	"cmp"
	"context"
	"errors"
	"time"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
)

// Store stores a managed resource and its binding. Each method makes one change, which is
// durable when it returns without an error.
type Store interface {
	// SetFinalizer adds our finalizer to the managed resource, or removes it.
	SetFinalizer(ctx context.Context, present bool) error
	// CreateBinding creates the binding. If another binding has its name, CreateBinding
	// returns that one.
	CreateBinding(ctx context.Context, spec *binding.BindingSpec) (reservedBy *binding.BindingSpec, err error)
	// UpdateBinding replaces the binding. It fails if the binding was changed after it was read.
	UpdateBinding(ctx context.Context, spec *binding.BindingSpec) error
	// DeleteBinding deletes the binding and the one that reserves its assigned identity.
	DeleteBinding(ctx context.Context) error
	// ReserveIdentity reserves an assigned identity by a second binding. If another managed
	// resource has reserved it, ReserveIdentity returns that one's binding.
	ReserveIdentity(ctx context.Context, of *binding.BindingSpec, ref external.Ref) (reservedBy *binding.BindingSpec, err error)
	// SetExternalName writes the identity into the external-name annotation.
	SetExternalName(ctx context.Context, ref external.Ref) error
	// LateInitialize sets those fields of spec.forProvider that are not set yet.
	LateInitialize(ctx context.Context, chosen map[string]any) error
	// PublishConnection writes the connection secret.
	PublishConnection(ctx context.Context, connection map[string][]byte) error
}

// Limits bound the calls of a client.
type Limits struct {
	// Timeout is how long a call may take; 0 for callLimit.
	Timeout time.Duration
	// LeaderUntil is how long this process is certain to be the only leader, by Now; zero without leader election. A
	// call that changes something is not made after that, and is canceled then unless leadership was renewed. Nil
	// stands for no leader election.
	LeaderUntil func() time.Time
	// Now is the clock of LeaderUntil; it is required with LeaderUntil.
	Now func() time.Time
}

// Step carries out one step and adds its result to the state. It returns the errors of the
// store only: errors of the external API are part of the state.
func Step(ctx context.Context, session port.Session, store Store, s *operation.State, step operation.Step, limits Limits) error {
	switch {
	case IsCall(step):
		ctx, cancel := context.WithTimeout(ctx, cmp.Or(limits.Timeout, callLimit))
		defer cancel()
		if step.Do == operation.Begin && limits.LeaderUntil != nil {
			if limits.leadershipEnded() {
				s.SetAnswer(external.Op{}, errNotLeading) // a client that ignores the context would send the call
				return nil
			}
			go limits.cancelWithLeadership(ctx, cancel)
		}
		call(ctx, session, s, step)
		return nil
	case step.Do == operation.Finish:
		return nil
	}
	return persist(ctx, store, s, step)
}

// IsCall reports whether a step calls the client.
func IsCall(step operation.Step) bool {
	switch step.Do {
	case operation.Observe, operation.FindByMark, operation.FindByOwner, operation.Prepare, operation.Begin, operation.Poll:
		return true
	default:
		return false
	}
}

// callLimit is how long a call of an external API may take if its kind sets no timeout.
const callLimit = time.Minute

// errNotLeading is the answer to a call that is not made. It counts as an unknown outcome,
// which the next reconcile of this or another process resolves.
var errNotLeading = errors.New("the call was not made: this process might no longer be the leader")

func (l Limits) leadershipEnded() bool {
	until := l.LeaderUntil()
	return !until.IsZero() && !l.Now().Before(until)
}

// A renewal before the end keeps the call.
func (l Limits) cancelWithLeadership(ctx context.Context, cancel context.CancelFunc) {
	for until := l.LeaderUntil(); !until.IsZero(); until = l.LeaderUntil() {
		left := until.Sub(l.Now())
		if left <= 0 {
			cancel()
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func call(ctx context.Context, session port.Session, s *operation.State, step operation.Step) {
	switch step.Do {
	case operation.Observe:
		s.Observed, s.ObserveErr = nil, nil
		observed, err := session.Observe(ctx, step.Ref)
		if s.ObserveErr = err; err == nil {
			s.Observed = &observed
		}
	case operation.FindByMark:
		s.FoundByMark, s.ObserveErr = session.Find(ctx, keyOf(s), external.Mark{ID: s.Binding.Mark, Owner: s.MarkOwner})
		s.SearchedByMark = s.ObserveErr == nil
	case operation.FindByOwner:
		s.FoundByOwner, s.ObserveErr = session.Find(ctx, keyOf(s), external.Mark{Owner: s.MarkOwner})
		s.SearchedByOwner = s.ObserveErr == nil
	case operation.Prepare:
		var observed external.Observation
		if s.Observed != nil {
			observed = *s.Observed
		}
		s.Requests[step.Verb], s.PrepareErr = session.Prepare(step.Verb, observed)
	case operation.Begin:
		s.SetAnswer(session.Begin(ctx, *step.Intent))
	case operation.Poll:
		op := s.Binding.Operation
		s.SetPollAnswer(session.Poll(ctx, external.Op{Resume: op.Resume, Ref: external.Ref(op.Ref)}))
	default:
	}
}

func persist(ctx context.Context, store Store, s *operation.State, step operation.Step) (err error) {
	switch step.Do {
	case operation.AddFinalizer:
		return store.SetFinalizer(ctx, true)
	case operation.RemoveFinalizer:
		return store.SetFinalizer(ctx, false)
	case operation.CreateBinding:
		s.ReservedBy, err = store.CreateBinding(ctx, step.Binding)
		return err
	case operation.UpdateBinding:
		if err = store.UpdateBinding(ctx, step.Binding); err == nil {
			s.SetBinding(step.Binding)
		}
		return err
	case operation.DeleteBinding:
		return store.DeleteBinding(ctx)
	case operation.ReserveIdentity:
		s.IdentityReservedBy, err = store.ReserveIdentity(ctx, s.Binding, step.Ref)
		s.IdentityReserved = err == nil && s.IdentityReservedBy == nil
		return err
	case operation.SetExternalName:
		s.ExternalNameSet = true
		return store.SetExternalName(ctx, step.Ref)
	case operation.LateInitialize:
		s.LateInitialized = true
		return store.LateInitialize(ctx, s.Observed.LateInit)
	case operation.PublishConnection:
		s.ConnectionPublished = true
		return store.PublishConnection(ctx, s.Observed.Connection)
	default:
		return nil
	}
}

func keyOf(s *operation.State) external.Key {
	k := s.Binding.Key
	return external.Key{Scope: k.Scope, Type: k.Type, Name: k.Name}
}
