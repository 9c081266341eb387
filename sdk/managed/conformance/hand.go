package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/espalier-dev/espalier/internal/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// someTime is a wait in which most operations end.
const someTime = 10 * time.Second

// ended makes a call and waits until its operation has ended.
func (l *life) ended(ctx context.Context, session port.Session, i external.Intent) (external.Op, error) {
	op, err := session.Begin(ctx, i)
	return l.polled(ctx, session, op, err)
}

// polled waits until an operation has ended.
func (l *life) polled(ctx context.Context, session port.Session, op external.Op, err error) (external.Op, error) {
	ref := op.Ref
	for n := 0; err == nil && op.Err == nil && !op.Done && op.Resume != "" && n < mostPasses; n++ {
		l.elapse(ctx, max(op.RetryAfter, time.Second))
		op, err = session.Poll(ctx, external.Op{Resume: op.Resume, Ref: ref})
		if op.Ref != "" {
			ref = op.Ref
		}
	}
	op.Ref = ref
	return op, err
}

// plant makes an external resource as somebody else would, with a mark or without.
func (l *life) plant(ctx context.Context, mark external.Mark) (ref external.Ref, err error) {
	err = l.audited(ctx, l.object, func(session port.Session) error {
		key, err := session.Identify()
		if err != nil {
			return err
		}
		request, err := session.Prepare(external.Create, external.Observation{})
		if err != nil {
			return err
		}
		op, err := l.ended(ctx, session, external.Intent{Verb: external.Create, Attempt: 1, Token: l.world.text("plant"), Mark: mark, Key: key, Request: request})
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
			return fmt.Errorf("its identity isn't told")
		}
		return nil
	})
	l.remember(ref)
	l.note("somebody makes an external resource: %q, marked %q, %v", ref, mark.ID, err)
	l.calm(ctx)
	return ref, err
}
