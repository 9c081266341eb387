package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
)

// typicalDuration is enough time for most operations to complete.
const typicalDuration = 10 * time.Second

// beginAndPoll calls Begin and waits until the operation is done.
func (s *scenario) beginAndPoll(ctx context.Context, session port.Session, i external.Intent) (external.Op, error) {
	op, err := session.Begin(ctx, i)
	return s.pollUntilDone(ctx, session, op, err)
}

// pollUntilDone waits until an operation is done. Op and err are what Begin has returned.
func (s *scenario) pollUntilDone(ctx context.Context, session port.Session, op external.Op, err error) (external.Op, error) {
	ref := op.Ref
	for n := 0; err == nil && op.Err == nil && !op.Done && op.Resume != "" && n < maxReconciles; n++ {
		s.advance(ctx, max(op.RetryAfter, time.Second))
		op, err = session.Poll(ctx, external.Op{Resume: op.Resume, Ref: ref})
		if op.Ref != "" {
			ref = op.Ref
		}
	}
	op.Ref = ref
	return op, err
}

// createExternal creates an external resource without the runtime, as another client would.
// The mark may be empty.
func (s *scenario) createExternal(ctx context.Context, mark external.Mark) (ref external.Ref, err error) {
	err = s.withSession(ctx, s.object, func(session port.Session) error {
		key, err := session.Identify()
		if err != nil {
			return err
		}
		request, err := session.Prepare(external.Create, external.Observation{})
		if err != nil {
			return err
		}
		op, err := s.beginAndPoll(ctx, session, external.Intent{Verb: external.Create, Attempt: 1, Token: s.cluster.randomText("other"), Mark: mark,
			Key: key, Request: request})
		switch {
		case err != nil:
			return err
		case op.Err != nil:
			return op.Err
		}
		if ref = op.Ref; ref == "" {
			ref = external.Ref(key.Name)
		}
		if ref == "" {
			return errors.New("the creation returned no identity")
		}
		return nil
	})
	s.addRef(ref)
	s.logf("another client creates an external resource: %q, marked %q, %s", ref, mark.ID, errorText(err))
	s.waitUntilConsistent(ctx)
	return ref, err
}
