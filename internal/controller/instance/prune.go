package instance

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// prune deletes what the instance made and nothing wants any more, in reverse
// order. The plan lists nothing to prune until everything that is wanted has been
// resolved and applied; what was on its way before stays told until it is gone.
func (r *Reconciler) prune(ctx context.Context, v *visit) {
	before := report.ReadPruning(v.instance)
	if len(v.plan.Prune) == 0 {
		v.pruning = v.stillThere(before)
		if v.recreates {
			return // who uses what is to be created anew, and what came of asking for its end
		}
		r.forgetUses(v.key, v.memory)
		if len(v.pruning) == 0 {
			v.memory.tried = plan.Tried{} // what was asked to go is gone
		}
		return
	}
	now := r.Now()
	for _, o := range v.plan.Prune {
		v.memory.try(o, func(t plan.Trial) plan.Trial { return t.Seen(o, now) })
	}
	r.notice(ctx, v, v.plan.Prune, now)
	remains := plan.Remains{
		Instance: v.instance, Children: v.plan.Prune, Tried: v.memory.tried,
		Before: report.Status{Pruning: before}, Now: now,
	}
	if !r.observeUses(v, &remains, v.plan.Prune...) {
		v.pruning = before
		return
	}
	pruning := plan.Prune(remains, v.plan.Policies)
	if r.move(ctx, v, pruning.Move) {
		remains.Tried = v.memory.tried
		pruning = plan.Prune(remains, v.plan.Policies)
	}
	v.pruning, v.retry = pruning.Objects, pruning.Retry
	for _, b := range fresh(before, v.pruning) {
		if b.Reason.IsBlocker() && !b.Deepest().InProgress {
			r.Events.Event(v.instance, telemetry.Warning, "PruneBlocked", blockerText(b))
		}
	}
}

// stillThere are those of the objects that haven't gone and that nothing wants
// again.
func (v *visit) stillThere(told []report.Blocker) []report.Blocker {
	return slices.DeleteFunc(told, func(b report.Blocker) bool {
		named := func(o *unstructured.Unstructured) bool { return o != nil && report.ObjectOf(o) == b.Object }
		wanted := func(s plan.Step) bool { return named(s.Object) || named(s.Current) }
		return !slices.ContainsFunc(v.facts.Owned[b.Node], named) || slices.ContainsFunc(v.plan.Steps, wanted)
	})
}
