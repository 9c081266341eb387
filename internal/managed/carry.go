package managed

import (
	"context"
	"errors"
	"fmt"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/managed/carry"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/internal/managed/port"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// carryOut does one step and adds what came of it to what is known. It ends the
// reconcile if somebody has changed what it was decided on, whose event brings another.
func (r *Reconciler) carryOut(ctx context.Context, s *reconcileState, step operation.Step) reconcile.Result {
	err := carry.Out(ctx, s.session, store{r, s}, &s.state, step, r.Port.Timeout, r.Until)
	switch {
	case kube.IsGone(err) && !kube.IsKindNotServed(err):
		return reconcile.Conflict()
	case errors.Is(s.state.LookFailed, port.ErrNotYet):
		return reconcile.Done()
	case err != nil:
		return r.report(ctx, s, operation.Fails(fmt.Errorf("%s: %w", step.Do, err)))
	}
	if step.Event.Reason != "" {
		r.Events.Event(s.object, telemetry.Normal, step.Event.Reason, step.Event.Message)
	}
	if step.Do == operation.Unclaim && len(s.object.GetFinalizers()) == 0 {
		return reconcile.Done() // it is gone; its binding is seen to when that has its turn
	}
	return reconcile.Result{}
}
