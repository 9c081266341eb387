package external

import (
	"context"
	"errors"
	"fmt"

	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/controller/external/carry"
	"github.com/espalier-dev/espalier/internal/controller/external/port"
	"github.com/espalier-dev/espalier/internal/operation"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// carryOut does one step and adds what came of it to what is known. It settles the
// pass if somebody has changed what it was decided on, whose event brings another.
func (r *Reconciler) carryOut(ctx context.Context, v *visit, step operation.Step) outcome.Outcome {
	err := carry.Out(ctx, v.session, store{r, v}, &v.state, step, r.Port.Timeout, r.Until)
	switch {
	case cluster.IsGone(err) && !cluster.IsUnserved(err):
		return outcome.Overtaken()
	case errors.Is(v.state.LookFailed, port.ErrNotYet):
		return outcome.Done()
	case err != nil:
		return r.report(ctx, v, operation.Fails(fmt.Errorf("%s: %w", step.Do, err)))
	}
	if step.Event.Reason != "" {
		r.Events.Event(v.object, telemetry.Normal, step.Event.Reason, step.Event.Message)
	}
	if step.Do == operation.Unclaim && len(v.object.GetFinalizers()) == 0 {
		return outcome.Done() // it is gone; its binding is seen to when that has its turn
	}
	return outcome.Outcome{}
}
