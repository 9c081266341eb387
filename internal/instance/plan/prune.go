package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Pruning is the next move in taking away what nothing wants any more.
type Pruning struct {
	RemovalStep
	// Objects is what to tell of those that are not gone yet, what is blocked first.
	Objects []report.Blocker
}

// mostPruned bounds the objects that a status tells of.
const mostPruned = 20

// Prune says what to do next about objects that nothing wants any more, by the
// policies that hold now. Each goes as soon as what stood on it has gone; one that
// is blocked holds up nothing else.
func Prune(r Remaining, policies inventory.Policies) Pruning {
	leaving, staying := r.sort(policies)
	r.leaving = keysOf(leaving)
	if _, unclear := inventory.PoliciesOf(r.Instance); len(unclear) > 0 {
		return r.untouched(unclear)
	}
	never := func(report.Blocker) bool { return false }
	var p Pruning
	for _, v := range append(staying, r.walk(leaving, newEdges(staying), never)...) {
		p.carryOut(v)
		if v.held == nil && v.fate == v1alpha1.DeletionDelete {
			v.held = p.going(r, v)
		}
		if v.held != nil {
			p.Objects = append(p.Objects, *v.held)
		}
	}
	slices.SortStableFunc(p.Objects, func(a, b report.Blocker) int { return urgency(a) - urgency(b) })
	p.Objects = slices.Clip(p.Objects[:min(len(p.Objects), mostPruned)])
	return p
}

// untouched keeps all of them before it is clear what is to stay.
func (r Remaining) untouched(unclear diag.List) Pruning {
	var p Pruning
	for _, child := range r.Children[:min(len(r.Children), mostPruned)] {
		c := leaver{Unstructured: child, at: inventory.PlaceOf(child)}
		p.Objects = append(p.Objects, *r.blocker(c, report.Protected, "isn't touched before it is clear what is to stay: "+unclear.Err().Error(), r.Now))
	}
	return p
}

func urgency(b report.Blocker) int {
	if b.Reason.IsBlocker() {
		return 0
	}
	return 1
}

// going tells of an object that nothing blocks and that takes its time: most are
// gone before anybody could read of it, and each telling is a write.
func (p *Pruning) going(r Remaining, v verdict) *report.Blocker {
	reason, message := report.Deleting, "is being deleted: nothing wants it any more"
	if v.waits {
		reason, message = report.WaitingForOthers, "goes when what stands on it has gone: nothing wants it any more"
	}
	b := r.blocker(v.leaver, reason, message, r.Now)
	noticed := r.trial(v.leaver).Noticed
	if noticed.IsZero() {
		noticed = r.Now
	}
	if left := shortWhile - r.Now.Sub(noticed); left > 0 && r.toldOf(*b) == nil {
		p.retryIn(left)
		return nil
	}
	return b
}

// StillPruned are those of the objects that were told before which haven't gone and that nothing
// wants again.
func StillPruned(told []report.Blocker, owned map[string][]*unstructured.Unstructured, steps []Step) []report.Blocker {
	return slices.DeleteFunc(slices.Clone(told), func(b report.Blocker) bool {
		is := func(o *unstructured.Unstructured) bool { return o != nil && report.ObjectOf(o) == b.Object }
		wanted := func(s Step) bool { return is(s.Object) || is(s.Current) }
		return !slices.ContainsFunc(owned[b.Node], is) || slices.ContainsFunc(steps, wanted)
	})
}
