package instance

import (
	"context"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// The order is reversed. The plan lists none until everything that is wanted has been resolved and applied. Terminating
// children stay in the status until they are gone.
func (r *Reconciler) prune(ctx context.Context, s *reconcileState) {
	before := report.ReadPruning(s.instance)
	if len(s.plan.Prune) == 0 {
		s.pruning = plan.StillPruned(before, s.facts.Owned, s.plan.Steps)
		if s.recreating {
			return // recreate still needs the usages and the deletion attempts
		}
		r.forgetUsages(s.key, s.memory)
		if len(s.pruning) == 0 {
			s.memory.deletionHistory = plan.DeletionHistory{} // all are gone
		}
		return
	}
	now := r.Now()
	for _, o := range s.plan.Prune {
		s.memory.updateAttempts(o, func(a plan.DeletionAttempts) plan.DeletionAttempts { return a.Observed(o, now) })
	}
	r.observeTerminating(ctx, s, s.plan.Prune, now)
	remains := plan.Remaining{
		Instance: s.instance, Defaults: s.facts.Defaults, Children: s.plan.Prune, History: s.memory.deletionHistory,
		Reported: report.Status{Pruning: before}, Now: now,
	}
	if !r.observeUsages(s, &remains, s.plan.Prune...) {
		s.pruning = before
		return
	}
	pruning := plan.Prune(remains, s.plan.Policies)
	if r.executeRemoval(ctx, s, pruning.RemovalStep, r.deleteChild) {
		remains.History = s.memory.deletionHistory
		pruning = plan.Prune(remains, s.plan.Policies)
	}
	s.pruning, s.pruneAfter = pruning.Objects, pruning.Retry
	for _, b := range report.NewBlockers(before, s.pruning) {
		if b.Reason.IsBlocker() && !b.RootCause().InProgress {
			r.Events.Event(s.instance, telemetry.Warning, "PruneBlocked", blockerText(b))
		}
	}
}
