package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Pruning is the next step of deleting objects that are no longer desired.
type Pruning struct {
	RemovalStep
	// Objects are those to report that are not gone yet, blocked ones first.
	Objects []report.Blocker
}

// maxPruned bounds the objects in status.pruning.
const maxPruned = 20

// Prune computes the next step for objects that are no longer desired, by the current deletion
// policies. Each is deleted as soon as its dependents are gone; a blocked one delays nothing else.
func Prune(r Remaining, policies inventory.Policies) Pruning {
	targets, staying := r.partition(policies)
	r.deleting = keysOf(targets)
	if _, problems := inventory.PoliciesOf(r.Instance, r.Defaults); len(problems) > 0 {
		return r.keepAll(problems)
	}
	never := func(report.Blocker) bool { return false }
	var p Pruning
	for _, v := range append(staying, r.decideInOrder(targets, newDependencyOrder(staying), never)...) {
		p.addVerdict(v)
		if v.blocker == nil && v.outcome == v1alpha1.DeletionDelete {
			v.blocker = p.pendingDeletion(r, v)
		}
		if v.blocker != nil {
			p.Objects = append(p.Objects, *v.blocker)
		}
	}
	slices.SortStableFunc(p.Objects, func(a, b report.Blocker) int { return blockerRank(a) - blockerRank(b) })
	p.Objects = slices.Clip(p.Objects[:min(len(p.Objects), maxPruned)])
	return p
}

func (r Remaining) keepAll(problems diag.List) Pruning {
	var p Pruning
	for _, child := range r.Children[:min(len(r.Children), maxPruned)] {
		c := target{Unstructured: child, place: inventory.PlaceOf(child)}
		p.Objects = append(p.Objects, *r.newBlocker(c, report.Protected, "is not deleted while its deletion policy is invalid: "+problems.Err().Error(), r.Now))
	}
	return p
}

func blockerRank(b report.Blocker) int {
	if b.Reason.IsBlocker() {
		return 0
	}
	return 1
}

// Nothing blocks the object. It is reported if its deletion takes longer than usual: most are gone sooner than a user
// could read of them, and each report is a write.
func (p *Pruning) pendingDeletion(r Remaining, v verdict) *report.Blocker {
	reason, message := report.Deleting, "is being deleted: it is no longer desired"
	if v.waits {
		reason, message = report.WaitingForOthers, "is deleted after its dependents: it is no longer desired"
	}
	b := r.newBlocker(v.target, reason, message, r.Now)
	firstSeen := r.attemptsOf(v.target).FirstSeen
	if firstSeen.IsZero() {
		firstSeen = r.Now
	}
	if left := actionableDelay - r.Now.Sub(firstSeen); left > 0 && r.findReported(*b) == nil {
		p.retryIn(left)
		return nil
	}
	return b
}

// StillPruned returns the reported objects that still exist and are not desired again.
func StillPruned(reported []report.Blocker, owned map[string][]*unstructured.Unstructured, steps []Step) []report.Blocker {
	return slices.DeleteFunc(slices.Clone(reported), func(b report.Blocker) bool {
		matches := func(o *unstructured.Unstructured) bool { return o != nil && report.ObjectOf(o) == b.Object }
		wanted := func(s Step) bool { return matches(s.Object) || matches(s.Current) }
		return !slices.ContainsFunc(owned[b.Node], matches) || slices.ContainsFunc(steps, wanted)
	})
}
