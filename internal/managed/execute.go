package managed

import (
	"context"
	"errors"
	"fmt"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/sdk/managed/port"
)

// During a call of the external API, the reconcile needs no worker.
func (r *Reconciler) callOrStore(ctx context.Context, s *reconcileState, step operation.Step, limits execute.Limits) error {
	if execute.IsCall(step) {
		defer queue.Calling(ctx)()
	}
	return execute.Step(ctx, s.session, bindingStore{r, s}, &s.state, step, limits)
}

// It ends the reconcile if a written object was changed meanwhile; the event of that change brings the next one.
func (r *Reconciler) execute(ctx context.Context, s *reconcileState, step operation.Step) reconcile.Result {
	if step.Do == operation.RemoveFinalizer && s.binding == nil && s.state.ReservedBy == nil {
		found, err := r.findBinding(ctx, s)
		if err != nil {
			return r.report(ctx, s, operation.Failure(err))
		}
		if s.binding = found; found != nil {
			return reconcile.Result{} // the next step is another
		}
	}
	limits := execute.Limits{Timeout: r.Port.Timeout, LeaderUntil: r.LeaderUntil, Now: r.Now}
	err := r.callOrStore(ctx, s, step, limits)
	switch {
	case kube.IsStale(err) && !kube.IsKindNotServed(err):
		return reconcile.Conflict()
	case errors.Is(s.state.ObserveErr, port.ErrNotSynced):
		return reconcile.Done()
	case err != nil:
		return r.report(ctx, s, operation.Failure(fmt.Errorf("%s: %w", step.Do, err)))
	}
	if step.Event.Reason != "" {
		r.Events.Event(s.object, telemetry.Normal, step.Event.Reason, step.Event.Message)
	}
	if step.Do == operation.RemoveFinalizer && len(s.object.GetFinalizers()) == 0 {
		r.Enqueue(s.key) // it is gone, and its bindings are next; the cache knows already, so no event says so
		return reconcile.Done()
	}
	return reconcile.Result{}
}
