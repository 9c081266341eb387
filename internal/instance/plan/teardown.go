package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Removal is the next move in taking an instance apart.
type Removal struct {
	RemovalStep
	// Done says that nothing is left to wait for: the instance may go.
	Done bool
	// Deletion is what to tell of it, and Stalled says that it is past its limit.
	Deletion report.Deletion
	Stalled  bool
	// Problem is what can't be read of how the instance is to be deleted.
	Problem diag.List
}

// RemovalStep is what to do with objects that are to go, side by side.
type RemovalStep struct {
	// Delete lists the objects to delete now, Release those that are to stay
	// without the marks of their instance, Retain those that are to stay as they are
	// and to be marked so, and Disown those that are left behind and must not be taken
	// by the garbage collector.
	Delete, Release, Retain, Disown []*unstructured.Unstructured
	// Retry asks for another look after so long; 0 for none.
	Retry time.Duration
}

func (m *RemovalStep) retryIn(d time.Duration) {
	if d > 0 && (m.Retry == 0 || d < m.Retry) {
		m.Retry = d
	}
}

// Teardown says what to do next about an instance that is being deleted. Of the
// children that are left, those that were applied last go first, all of one wave
// side by side, so that nothing loses what it stands on. It needs nothing but the
// instance and its children: no definition, no graph, no expressions.
func Teardown(r Remaining) Removal {
	policies, unclear := inventory.PoliciesOf(r.Instance)
	limits, trouble := inventory.LimitsOf(r.Instance)
	t := teardown{Remaining: r, limits: limits, forced: inventory.ForcedOf(r.Instance)}
	t.Problem = trouble
	leaving, staying := r.sort(policies)
	t.leaving = keysOf(leaving)
	t.mayBegin(unclear)
	switch {
	case t.unknown, len(t.blockers) > 0:
		t.remaining = leaving
	default:
		t.take(staying)
		t.take(t.walk(leaving, newWaves(), t.letsGo))
		t.keptByOthers()
	}
	t.conclude()
	return t.Removal
}

// teardown is one decision on its way.
type teardown struct {
	Remaining
	Removal
	limits inventory.Limits
	forced inventory.Forced

	remaining []leaver
	blockers  []report.Blocker
	left      []report.Blocker
	// unknown says that there may be more children than are known, marking that
	// some that stay aren't marked so yet.
	unknown, marking bool
}

// verdict is what is to become of a child now.
type verdict struct {
	leaver
	// fate is what is to become of it in the end.
	fate v1alpha1.DeletionPolicy
	// waits says that it isn't the child's turn, ask that its turn is now, and
	// released that it is left behind.
	waits, ask, released bool
	held                 *report.Blocker
	again                time.Duration
}

// sort parts the children into those that are to be deleted, in their order, and
// those that stay, with what is to be done about them.
func (r Remaining) sort(policies inventory.Policies) (leaving []leaver, staying []verdict) {
	for _, child := range r.Children {
		c := leaverOf(child)
		policy := policies.At(c.at, child)
		switch {
		case child.GetDeletionTimestamp() != nil:
			leaving = append(leaving, c)
		case r.Released:
		case policy == v1alpha1.DeletionRetain && !inventory.IsOwnedBy(child, r.Instance) && (c.at.OnDelete == policy || inventory.IsRetained(child)):
			staying = append(staying, verdict{leaver: c, fate: policy})
		case policy == v1alpha1.DeletionRetain:
			staying = append(staying, r.verdictOn(c, policy))
		case policy == v1alpha1.DeletionOrphan || r.Policy == report.Orphan:
			staying = append(staying, r.verdictOn(c, v1alpha1.DeletionOrphan))
		default:
			leaving = append(leaving, c)
		}
	}
	return inOrder(r.tie(leaving)), staying
}

func (r Remaining) verdictOn(c leaver, fate v1alpha1.DeletionPolicy) verdict {
	v := verdict{leaver: c, fate: fate}
	v.ask, v.held, v.again = r.asking(c, "release")
	return v
}

// mayBegin finds out whether children may be touched: the instance isn't
// protected, what is said of its children is understood, and what it has is known.
func (t *teardown) mayBegin(unclear diag.List) {
	self := leaver{Unstructured: t.Instance}
	if reason, protected := inventory.Protection(t.Instance); protected {
		t.blockers = append(t.blockers, *t.blocker(self, report.Protected, protectedBecause(reason), t.Now))
	}
	if held := t.instanceInUse(); held != nil {
		t.blockers = append(t.blockers, *held)
	}
	if err := unclear.Err(); err != nil {
		t.blockers = append(t.blockers, *t.blocker(self, report.Protected, "nothing is touched before it is clear what is to stay: "+err.Error(), t.Now))
	}
	if t.Forged {
		t.unknown = true
		t.blockers = append(t.blockers, *t.blocker(self, report.OutOfReach, "somebody has changed what it recorded of its objects ("+v1alpha1.ApplySetKindsAnnotation+"), and its definition isn't there to tell", t.Now))
	}
	byName := func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) }
	for _, gvk := range slices.SortedFunc(maps.Keys(t.Unread), byName) {
		blind := t.Unread[gvk]
		b := t.blindKind(gvk, blind)
		switch {
		case blind.Reason == Syncing:
			t.unknown = true
		case t.letsGo(b):
			t.left = append(t.left, b)
		default:
			t.blockers = append(t.blockers, b)
			t.unknown = true
		}
	}
}

// letsGo says whether a blocker is to be let go of: because somebody has named
// it, or because it blocks longer than somebody is ready to wait.
func (t *teardown) letsGo(b report.Blocker) bool {
	if t.forced.Names(b.Node, b.Object.Kind, b.Object.Name) {
		return true
	}
	since := t.Instance.GetDeletionTimestamp().Time
	if b.Since.After(since) {
		since = b.Since.Time
	}
	return t.past(t.limits.ForceAfter, since)
}

// past says whether something has lasted longer than a limit, if there is one, and
// sees to it that somebody looks when it has.
func (t *teardown) past(limit time.Duration, since time.Time) bool {
	if limit <= 0 {
		return false
	}
	left := limit - t.Now.Sub(since)
	t.retryIn(left)
	return left <= 0
}

// walk goes through the children in their order.
func (r Remaining) walk(children []leaver, q queue, letsGo func(report.Blocker) bool) []verdict {
	out := make([]verdict, 0, len(children))
	for _, c := range children {
		v := verdict{leaver: c, fate: v1alpha1.DeletionDelete, waits: !c.atOnce && q.waits(c)}
		if !v.waits {
			v.ask, v.held, v.again = r.look(c)
			v.released = v.held != nil && letsGo(*v.held)
		}
		switch {
		case v.released:
		case c.standsAside():
			q.aside(c)
		default:
			q.stays(c)
		}
		out = append(out, v)
	}
	return out
}

// carryOut adds what is to be done about a child to the move.
func (m *RemovalStep) carryOut(v verdict) {
	m.retryIn(v.again)
	switch {
	case !v.ask:
	case v.fate == v1alpha1.DeletionOrphan:
		m.Release = append(m.Release, v.Unstructured)
	case v.fate == v1alpha1.DeletionRetain:
		m.Retain = append(m.Retain, v.Unstructured)
	default:
		m.Delete = append(m.Delete, v.Unstructured)
	}
}

func (t *teardown) take(verdicts []verdict) {
	for _, v := range verdicts {
		if v.fate != v1alpha1.DeletionDelete && v.held != nil {
			v.released = t.letsGo(*v.held)
		}
		if v.released {
			t.left = append(t.left, *v.held)
			t.disown(v)
			continue
		}
		if v.held != nil {
			t.blockers = append(t.blockers, *v.held)
		}
		switch v.fate {
		case v1alpha1.DeletionRetain:
			t.marking = t.marking || v.ask || v.held != nil
		case v1alpha1.DeletionOrphan:
			t.marking = true // until it isn't seen any more
		default:
			t.remaining = append(t.remaining, v.leaver)
		}
		t.carryOut(v)
	}
}

// disown sees to it that the garbage collector doesn't take what is protected and is left
// behind. If that is refused, it goes on all the same: it was asked to by force.
func (t *teardown) disown(v verdict) {
	if v.held.Reason != report.Protected || !inventory.IsOwnedBy(v.Unstructured, t.Instance) {
		return
	}
	ask, refused, again := t.asking(v.leaver, "release")
	if refused != nil {
		return
	}
	t.marking = true
	t.retryIn(again)
	if ask {
		t.Disown = append(t.Disown, v.Unstructured)
	}
}

// ours says whether the instance is kept by us.
func (t *teardown) ours() bool {
	return slices.ContainsFunc(t.Instance.GetFinalizers(), inventory.IsFinalizer)
}

// keptByOthers tells what keeps an instance that has been let go here, once all
// that it consisted of has gone.
func (t *teardown) keptByOthers() {
	if t.ours() || t.marking || len(t.remaining) > 0 {
		return
	}
	self := leaver{Unstructured: t.Instance}
	held, patience := t.byFinalizers(self)
	if t.toldOf(*held) == nil {
		noticed := t.trial(self).Noticed
		if noticed.IsZero() {
			noticed = t.Now
		}
		if left := patience - t.Now.Sub(noticed); left > 0 {
			t.retryIn(left)
			return
		}
	}
	t.blockers = append(t.blockers, *held)
}

// conclude says whether it is done, and what to tell.
func (t *teardown) conclude() {
	t.Done = t.ours() && !t.unknown && !t.marking && len(t.remaining) == 0 && len(t.blockers) == 0 && t.mayEnd()
	d := t.count()
	if before := t.Before.Deletion; before != nil {
		switch wait := t.notYet(*before, d); {
		case t.Done && len(before.Blockers) == 0 && before.Left == d.Left:
			d = *before // the last count is not told: the instance goes
		case wait > 0:
			t.retryIn(wait)
			d = *before
		}
	}
	t.Deletion = d
	t.Stalled = t.past(t.limits.Timeout, t.Instance.GetDeletionTimestamp().Time)
}

// mayEnd says whether the instance is to be let go now: somebody may have refused
// that before, which is told.
func (t *teardown) mayEnd() bool {
	self := leaver{Unstructured: t.Instance}
	refusal := t.trial(self).Refusal
	if refusal.Reason == "" {
		return true
	}
	t.blockers = append(t.blockers, *t.blocker(self, refusal.Reason, refusal.Message, refusal.Since))
	left := refusal.next(t.Instance).Sub(t.Now)
	t.retryIn(left)
	return left <= 0
}

// ReleaseReason says why a blocker was let go of: the instance's own annotation that
// asked for it, or its definition.
func ReleaseReason(instance *unstructured.Unstructured, b report.Blocker) (annotation string) {
	if inventory.ForcedOf(instance).Names(b.Node, b.Object.Kind, b.Object.Name) {
		return v1alpha1.ForceDeleteAnnotation
	}
	if _, own := instance.GetAnnotations()[v1alpha1.ForceAfterAnnotation]; own {
		return v1alpha1.ForceAfterAnnotation
	}
	return ""
}

// DeletionMessage is what the conditions of an instance say of its deletion.
func DeletionMessage(r Removal) string {
	d := r.Deletion
	text := "its resources are being deleted, in reverse order"
	switch {
	case d.Policy == report.Orphan:
		text = "its resources are left in place, without its labels"
	case d.Total > 0:
		text += fmt.Sprintf(": %d of %d are gone", d.Removed, d.Total)
	}
	if d.Blocked > 0 {
		var blocked, waiting []string
		for _, b := range d.Blockers {
			deepest := b.Deepest()
			said := fmt.Sprintf("%s: %s: %s", deepest.Object, deepest.Reason, deepest.Message)
			if deepest.InProgress {
				waiting = append(waiting, said)
			} else {
				blocked = append(blocked, said)
			}
		}
		if len(blocked) > 0 {
			text += "; blocked by " + join(blocked)
		}
		if len(waiting) > 0 {
			text += "; waiting for " + join(waiting)
		}
	}
	if err := r.Problem.Err(); err != nil {
		text += "; " + err.Error()
	}
	return diag.Shorten(text, longestMessage)
}
