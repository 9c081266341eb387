// Package carry carries out the steps that the external resource of a managed
// resource needs: what concerns the external API is asked of the provider's client,
// and what has to survive is left to a store. The controller has one on an API server;
// the conformance kit has one in memory, so that a client is tried by what serves it.
package carry

import (
	"cmp"
	"context"
	"errors"
	"time"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/internal/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Store keeps a managed resource and its binding. Each method is one change, which is
// there when it returns without an error, whatever happens to the process then.
type Store interface {
	// Claim puts our finalizer on the managed resource, or takes it off.
	Claim(ctx context.Context, claimed bool) error
	// Reserve makes the binding; if its place is taken it returns who has it.
	Reserve(ctx context.Context, spec *binding.BindingSpec) (taken *binding.BindingSpec, err error)
	// Record replaces the binding, if nobody has changed it.
	Record(ctx context.Context, spec *binding.BindingSpec) error
	// Forget deletes the binding, with what it has reserved.
	Forget(ctx context.Context) error
	// ReserveID takes an assigned identity; if it is taken it returns who has it.
	ReserveID(ctx context.Context, of *binding.BindingSpec, ref external.Ref) (taken *binding.BindingSpec, err error)
	// Project writes the identity into the annotation.
	Project(ctx context.Context, ref external.Ref) error
	// LateInitialize sets fields of spec.forProvider that nobody has set.
	LateInitialize(ctx context.Context, chosen map[string]any) error
	// Publish writes the connection secret.
	Publish(ctx context.Context, connection map[string][]byte) error
}

// Out does one step and adds what came of it to what is known. An error is the
// store's: what the external API says, errors too, is part of what is known. A call of
// the client may take so long; callLimit if that is 0. One that changes something ends
// when another process may be at the same work, which until tells; nil for never.
func Out(ctx context.Context, session port.Session, store Store, s *operation.State, step operation.Step, limit time.Duration, until func() time.Time) error {
	switch step.Do {
	case operation.Observe, operation.Search, operation.Trace, operation.Prepare, operation.Begin, operation.Poll:
		ctx, done := context.WithTimeout(ctx, cmp.Or(limit, callLimit))
		defer done()
		if step.Do == operation.Begin && until != nil {
			if isOver(until()) {
				s.Answered(external.Op{}, errOver) // a client that heeds no context would send it
				return nil
			}
			go endWith(ctx, until, done)
		}
		ask(ctx, session, s, step)
		return nil
	case operation.Rest:
		return nil
	default:
	}
	return keep(ctx, store, s, step)
}

// callLimit is how long a call to an external API may take whose kind doesn't say.
const callLimit = time.Minute

// errOver is about a call that isn't made. That nothing was sent isn't concluded from
// it: the next pass, this process's or another's, finds out.
var errOver = errors.New("another process may be at the same work by now")

// isOver says of until when this process may call whether that has passed.
func isOver(until time.Time) bool { return !until.IsZero() && !time.Now().Before(until) }

// endWith ends a call when the leadership is over, however often that is renewed until
// then.
func endWith(ctx context.Context, until func() time.Time, end context.CancelFunc) {
	for at := until(); !at.IsZero(); at = until() {
		left := time.Until(at)
		if left <= 0 {
			end()
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

// ask does what concerns the external API.
func ask(ctx context.Context, session port.Session, s *operation.State, step operation.Step) {
	switch step.Do {
	case operation.Observe:
		s.Look, s.LookFailed = nil, nil
		look, err := session.Observe(ctx, step.Ref)
		if s.LookFailed = err; err == nil {
			s.Look = &look
		}
	case operation.Search:
		s.Found, s.LookFailed = session.Find(ctx, keyOf(s), external.Mark{ID: s.Binding.Mark, Owner: s.MarkOwner})
		s.Searched = s.LookFailed == nil
	case operation.Trace:
		s.Traces, s.LookFailed = session.Find(ctx, keyOf(s), external.Mark{Owner: s.MarkOwner})
		s.Traced = s.LookFailed == nil
	case operation.Prepare:
		var seen external.Observation
		if s.Look != nil {
			seen = *s.Look
		}
		s.Requests[step.Verb], s.PrepareFailed = session.Prepare(step.Verb, seen)
	case operation.Begin:
		s.Answered(session.Begin(ctx, *step.Intent))
	case operation.Poll:
		op := s.Binding.Operation
		s.PolledFor(session.Poll(ctx, external.Op{Resume: op.Resume, Ref: external.Ref(op.Ref)}))
	default:
	}
}

// keep does what has to survive.
func keep(ctx context.Context, store Store, s *operation.State, step operation.Step) (err error) {
	switch step.Do {
	case operation.Claim:
		return store.Claim(ctx, true)
	case operation.Unclaim:
		return store.Claim(ctx, false)
	case operation.Reserve:
		s.Taken, err = store.Reserve(ctx, step.Binding)
		return err
	case operation.Record:
		if err = store.Record(ctx, step.Binding); err == nil {
			s.Stored(step.Binding)
		}
		return err
	case operation.Forget:
		return store.Forget(ctx)
	case operation.ReserveID:
		s.IDTaken, err = store.ReserveID(ctx, s.Binding, step.Ref)
		s.IDReserved = err == nil && s.IDTaken == nil
		return err
	case operation.Project:
		s.Projected = true
		return store.Project(ctx, step.Ref)
	case operation.LateInitialize:
		s.LateInitialized = true
		return store.LateInitialize(ctx, s.Look.LateInit)
	case operation.Publish:
		s.Published = true
		return store.Publish(ctx, s.Look.Connection)
	default:
		return nil
	}
}

func keyOf(s *operation.State) external.Key {
	k := s.Binding.Key
	return external.Key{Scope: k.Scope, Type: k.Type, Name: k.Name}
}
