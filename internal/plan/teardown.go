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
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/report"
)

// Removal is the next move in taking an instance apart.
type Removal struct {
	Move
	// Done says that nothing is left to wait for: the instance may go.
	Done bool
	// Deletion is what to tell of it, and Stalled says that it is past its limit.
	Deletion report.Deletion
	Stalled  bool
	// Trouble is what can't be read of how the instance is to be deleted.
	Trouble diag.List
}

// Move is what to do with objects that are to go, side by side.
type Move struct {
	// Delete lists the objects to delete now, Release those that are to stay
	// without the marks of their instance.
	Delete, Release []*unstructured.Unstructured
	// Retry asks for another look after so long; 0 for none.
	Retry time.Duration
}

func (m *Move) retryIn(d time.Duration) {
	if d > 0 && (m.Retry == 0 || d < m.Retry) {
		m.Retry = d
	}
}

// What a status tells at most, and how often it is written while only the count,
// or a list that has begun, changes.
const (
	mostBlockers  = 10
	countsEvery   = time.Second
	blockersEvery = 200 * time.Millisecond
)

// Teardown says what to do next about an instance that is being deleted. Of the
// children that are left, those that were applied last go first, all of one wave
// side by side, so that nothing loses what it stands on. It needs nothing but the
// instance and its children: no definition, no graph, no expressions.
func Teardown(r Remains) Removal {
	policies, trouble := inventory.PoliciesOf(r.Instance)
	limits, further := inventory.LimitsOf(r.Instance)
	t := teardown{Remains: r, limits: limits, forced: inventory.ForcedOf(r.Instance)}
	t.Trouble = append(trouble, further...)
	leaving, released := r.sort(policies)
	switch {
	case !slices.ContainsFunc(r.Instance.GetFinalizers(), inventory.IsFinalizer):
		t.keptByOthers()
	case t.mayBegin():
		t.release(released)
		t.take(r.walk(leaving, &waves{}, t.letsGo))
	default:
		t.remaining = leaving
	}
	t.tell()
	return t.Removal
}

// teardown is one decision on its way.
type teardown struct {
	Remains
	Removal
	limits inventory.Limits
	forced inventory.Forced

	remaining []leaver
	blockers  []report.Blocker
	left      []report.Blocker
	// unknown says that there may be more children than are known, kept that the
	// instance isn't ours to let go any more.
	unknown, kept bool
}

// sort parts the children into those that are to be deleted, in their order, and
// those that are to be released. What is retained is neither.
func (r Remains) sort(policies inventory.Policies) (leaving []leaver, released []*unstructured.Unstructured) {
	var delete []*unstructured.Unstructured
	for _, child := range r.Children {
		policy := policies.Of(child)
		switch {
		case policy == v1alpha1.DeletionRetain:
		case child.GetDeletionTimestamp() == nil && (policy == v1alpha1.DeletionOrphan || r.Policy == report.Orphan):
			released = append(released, child)
		default:
			delete = append(delete, child)
		}
	}
	return inOrder(delete), released
}

// mayBegin says whether children may be touched: the instance isn't protected,
// and what it has is known.
func (t *teardown) mayBegin() bool {
	if reason, protected := inventory.Protection(t.Instance); protected {
		b := t.blocker(leaver{Unstructured: t.Instance}, report.Protected, protectedBecause(reason), t.Now)
		t.blockers = append(t.blockers, *b)
		return false
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
	return !t.unknown
}

// keptByOthers tells what keeps an instance that has been let go here: all that it
// consisted of has gone.
func (t *teardown) keptByOthers() {
	t.kept = true
	held, _ := t.byFinalizers(leaver{Unstructured: t.Instance})
	if left := t.patience(t.Instance, shortWhile); left > 0 && !t.toldBefore(*held) {
		t.retryIn(left)
		return
	}
	t.blockers = append(t.blockers, *held)
}

// letsGo says whether a blocker is to be let go of: because somebody has named
// it, or because it has lasted longer than somebody is ready to wait.
func (t *teardown) letsGo(b report.Blocker) bool {
	return t.forced.Names(b.Node, b.Object.Kind, b.Object.Name) || t.past(t.limits.ForceAfter)
}

// past says whether the deletion has taken longer than a limit, if there is one,
// and sees to it that somebody looks when it has.
func (t *teardown) past(limit time.Duration) bool {
	if limit <= 0 {
		return false
	}
	left := limit - t.Now.Sub(t.Instance.GetDeletionTimestamp().Time)
	t.retryIn(left)
	return left <= 0
}

// release asks for the marks of children to be taken off, which stay.
func (t *teardown) release(children []*unstructured.Unstructured) {
	for _, child := range children {
		refusal, refused := t.Tried.Refusals[child.GetUID()]
		if !t.Tried.Asked[child.GetUID()] && (!refused || refusal.due(child, t.Now)) {
			t.Release = append(t.Release, child)
		}
		c := leaver{Unstructured: child, at: inventory.PlaceOf(child)}
		if refused {
			t.retryIn(max(0, refusal.Next.Sub(t.Now)))
			b := t.blocker(c, refusal.Reason, refusal.Message, refusal.Since)
			if t.letsGo(*b) {
				t.left = append(t.left, *b)
				continue
			}
			t.blockers = append(t.blockers, *b)
		}
		t.remaining = append(t.remaining, c)
	}
}

// verdict is what is to become of a child now.
type verdict struct {
	leaver
	// waits says that it isn't the child's turn, ask that it is to be deleted, and
	// released that it is left behind.
	waits, ask, released bool
	held                 *report.Blocker
	again                time.Duration
}

// walk goes through the children in their order.
func (r Remains) walk(children []leaver, q queue, letsGo func(report.Blocker) bool) []verdict {
	out := make([]verdict, 0, len(children))
	for _, c := range children {
		v := verdict{leaver: c, waits: q.waits(c)}
		if !v.waits {
			v.ask, v.held, v.again = r.look(c)
			v.released = v.held != nil && letsGo(*v.held)
		}
		if !v.released {
			q.stays(c)
		}
		out = append(out, v)
	}
	return out
}

func (t *teardown) take(verdicts []verdict) {
	for _, v := range verdicts {
		if v.released {
			t.left = append(t.left, *v.held)
			continue
		}
		t.remaining = append(t.remaining, v.leaver)
		t.retryIn(v.again)
		if v.held != nil {
			t.blockers = append(t.blockers, *v.held)
		}
		if v.ask {
			t.Delete = append(t.Delete, v.Unstructured)
		}
	}
}

// tell counts, and decides what of it is worth a write now.
func (t *teardown) tell() {
	t.Done = !t.unknown && !t.kept && len(t.remaining) == 0 && len(t.blockers) == 0 && t.mayEnd()
	d := t.count()
	if before := t.Before.Deletion; before != nil {
		switch wait := t.notYet(*before, d); {
		case t.Done && len(before.Blockers) == 0 && len(before.LeftBehind) == len(d.LeftBehind):
			d = *before // the last count is not told: the instance goes
		case wait > 0:
			t.retryIn(wait)
			d = *before
		}
	}
	t.Deletion = d
	t.Stalled = t.past(t.limits.Timeout)
}

// mayEnd says whether the instance is to be let go now: somebody may have refused
// that before, which is told.
func (t *teardown) mayEnd() bool {
	refusal, refused := t.Tried.Refusals[t.Instance.GetUID()]
	if !refused {
		return true
	}
	t.blockers = append(t.blockers, *t.blocker(leaver{Unstructured: t.Instance}, refusal.Reason, refusal.Message, refusal.Since))
	t.retryIn(max(0, refusal.Next.Sub(t.Now)))
	return refusal.due(t.Instance, t.Now)
}

// count is what there is to tell.
func (t *teardown) count() report.Deletion {
	d := report.Deletion{
		StartedAt: report.At(t.Instance.GetDeletionTimestamp().Time), Policy: t.Policy,
		Remaining: int64(len(t.remaining)), Blocked: int64(len(t.blockers)), Blockers: t.blockers, LeftBehind: t.left,
	}
	if len(d.Blockers) > mostBlockers {
		d.Blockers = d.Blockers[:mostBlockers]
	}
	ranks := map[int]bool{}
	for _, c := range t.remaining {
		ranks[c.rank] = true
	}
	d.Total, d.Waves = d.Remaining+int64(len(t.left)), int64(len(ranks))
	if before := t.Before.Deletion; before != nil {
		d.Total, d.Waves = max(d.Total, before.Total), max(d.Waves, before.Waves)
		d.LeftBehind = t.stillLeft(before.LeftBehind)
	}
	d.Removed = max(0, d.Total-d.Remaining-int64(len(d.LeftBehind)))
	d.Percent = 100
	if d.Total > 0 {
		d.Percent = d.Removed * 100 / d.Total
	}
	d.Progress = fmt.Sprintf("%d/%d", d.Removed, d.Total)
	d.Wave = min(d.Waves, d.Waves-int64(len(ranks))+1)
	return d
}

// stillLeft adds to what was left behind before what is left behind now; what
// waits for its end again, because nobody asks any more, is not left behind.
func (t *teardown) stillLeft(before []report.Blocker) []report.Blocker {
	out := slices.Clone(t.left)
	for _, old := range before {
		same := func(b report.Blocker) bool { return b.Object == old.Object }
		back := slices.ContainsFunc(t.remaining, func(c leaver) bool { return report.ObjectOf(c) == old.Object })
		if !back && !slices.ContainsFunc(t.blockers, same) && !slices.ContainsFunc(out, same) {
			out = append(out, old)
		}
	}
	return out
}

// notYet says how long to wait before telling: a change of the count is told every
// now and then, a first blocker at once.
func (t *teardown) notYet(before, now report.Deletion) time.Duration {
	since := t.Now.Sub(t.Tried.Told)
	switch {
	case same(before, now), len(before.Blockers) == 0 && len(now.Blockers) > 0, len(before.LeftBehind) != len(now.LeftBehind):
		return 0
	case same(before.Blockers, now.Blockers):
		return countsEvery - since
	}
	return blockersEvery - since
}

// same compares as the status holds it.
func same(a, b any) bool { return object.Digest(a) == object.Digest(b) }

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
		texts := make([]string, len(d.Blockers))
		for i, b := range d.Blockers {
			deepest := b.Deepest()
			texts[i] = fmt.Sprintf("%s: %s: %s", deepest.Object, deepest.Reason, deepest.Message)
		}
		text += "; blocked by " + join(texts)
	}
	if err := r.Trouble.Err(); err != nil {
		text += "; " + err.Error()
	}
	return diag.Cut(text, longestMessage)
}
