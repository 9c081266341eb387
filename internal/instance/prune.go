package instance

import (
	"context"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// The order is reversed. The plan lists none until everything that is wanted has been resolved and applied. Terminating
// children stay in the status until they are gone. It returns what the status says of objects that nothing wants and that
// are not gone.
func (r *Reconciler) prune(ctx context.Context, s *subject, last round) []report.Blocker {
	before, unwanted := report.ReadPruning(s.instance), last.plan.Prune
	if len(unwanted) == 0 {
		left := plan.StillPruned(before, last.facts.Owned, last.plan.Steps)
		if last.recreating {
			return left // recreate still needs the usages and the deletion attempts
		}
		r.forgetUsages(s.key, s.memory)
		if len(left) == 0 {
			s.memory.deletionHistory = plan.DeletionHistory{} // all are gone
		}
		return left
	}
	now := r.Now()
	for _, o := range unwanted {
		s.memory.updateAttempts(o, func(a plan.DeletionAttempts) plan.DeletionAttempts { return a.Observed(o, now) })
	}
	r.observeTerminating(ctx, s, unwanted, now)
	remains := plan.Remaining{
		Instance: s.instance, Defaults: last.facts.Defaults, Children: unwanted, History: s.memory.deletionHistory,
		Reported: report.Status{Pruning: before}, Now: now,
	}
	if !r.observeUsages(s, &remains, unwanted...) {
		return before
	}
	pruning := plan.Prune(remains, last.plan.Policies)
	if r.executeRemoval(ctx, s, pruning.RemovalStep, r.deleteChild) {
		remains.History = s.memory.deletionHistory
		pruning = plan.Prune(remains, last.plan.Policies)
	}
	s.requeue(pruning.Retry)
	for _, b := range report.NewBlockers(before, pruning.Objects) {
		if b.Reason.IsBlocker() && !b.RootCause().InProgress {
			r.Events.Event(s.instance, telemetry.Warning, "PruneBlocked", blockerText(b))
		}
	}
	return pruning.Objects
}
