package plan

import (
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/report"
)

// Pruning is the next move in taking away what nothing wants any more.
type Pruning struct {
	Move
	// Objects is what to tell of those that are not gone yet.
	Objects []report.Blocker
}

// Prune says what to do next about objects that nothing wants any more. Each goes
// as soon as what stood on it has gone; one that is blocked holds up nothing else.
func Prune(r Remains) Pruning {
	policies, _ := inventory.PoliciesOf(r.Instance)
	leaving, released := r.sort(policies)
	var p Pruning
	for _, child := range released {
		refusal, refused := r.Tried.Refusals[child.GetUID()]
		if !r.Tried.Asked[child.GetUID()] && (!refused || refusal.due(child, r.Now)) {
			p.Release = append(p.Release, child)
		}
		if refused {
			p.retryIn(max(0, refusal.Next.Sub(r.Now)))
			p.Objects = append(p.Objects, *r.blocker(leaver{child, inventory.PlaceOf(child), 0}, refusal.Reason, refusal.Message, refusal.Since))
		}
	}
	never := func(report.Blocker) bool { return false }
	for _, v := range r.walk(leaving, newEdges(), never) {
		p.retryIn(v.again)
		if v.ask {
			p.Delete = append(p.Delete, v.Unstructured)
		}
		if v.held == nil {
			v.held = p.going(r, v)
		}
		if v.held != nil && len(p.Objects) < mostBlockers {
			p.Objects = append(p.Objects, *v.held)
		}
	}
	return p
}

// going tells of an object that nothing blocks and that takes its time: most are
// gone before anybody could read of it, and each telling is a write.
func (p *Pruning) going(r Remains, v verdict) *report.Blocker {
	reason, message := report.Deleting, "is being deleted: nothing wants it any more"
	if v.waits {
		reason, message = report.WaitingForOthers, "goes when what stands on it has gone: nothing wants it any more"
	}
	b := r.blocker(v.leaver, reason, message, r.Now)
	if left := r.patience(v.Unstructured, shortWhile); left > 0 && !r.toldBefore(*b) {
		p.retryIn(left)
		return nil
	}
	return b
}
