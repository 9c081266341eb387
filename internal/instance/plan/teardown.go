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

// Removal is the next step of deleting an instance with its children.
type Removal struct {
	RemovalStep
	// Done says that nothing is left to wait for: the finalizer may be removed.
	Done bool
	// Deletion is the status to report, and Stalled says that the deletion exceeded its timeout.
	Deletion report.Deletion
	Stalled  bool
	// Problem lists deletion settings of the instance that are invalid.
	Problem diag.List
}

// RemovalStep is what to do in parallel with objects that are to be deleted or left in place.
type RemovalStep struct {
	// Delete lists the objects to delete. Release lists those that are orphaned: they lose the marks of their instance.
	// Retain lists those that keep them and are marked as retained. Disown lists those that are left behind: they lose
	// the owner reference, so the garbage collector keeps them.
	Delete, Release, Retain, Disown []*unstructured.Unstructured
	// Retry is after how long to decide again; 0 for on the next event.
	Retry time.Duration
}

func (m *RemovalStep) retryIn(d time.Duration) {
	if d > 0 && (m.Retry == 0 || d < m.Retry) {
		m.Retry = d
	}
}

// Teardown computes the next step for an instance that is being deleted. The children that were applied last are
// deleted first, all of one wave in parallel, so no object loses its dependencies. It needs only the instance, its
// children and the definition's settings, which are recorded on the instance: no definition, no graph, no expressions.
func Teardown(r Remaining) Removal {
	policies, problems := inventory.PoliciesOf(r.Instance, r.Defaults)
	limits, invalid := inventory.LimitsOf(r.Instance, r.Defaults)
	t := teardown{Remaining: r, limits: limits, forced: inventory.ForcedOf(r.Instance, r.Defaults.Overrides)}
	t.Problem = invalid
	targets, staying := r.partition(policies)
	t.deleting = keysOf(targets)
	t.checkPreconditions(problems)
	switch {
	case t.incomplete, len(t.blockers) > 0:
		t.remaining = targets
	default:
		t.applyVerdicts(staying)
		t.applyVerdicts(t.decideInOrder(targets, newWaveOrder(), t.leavesBehind))
		t.addForeignFinalizerBlocker()
	}
	t.finish()
	return t.Removal
}

type teardown struct {
	Remaining
	Removal
	limits inventory.Limits
	forced inventory.Forced

	remaining  []target
	blockers   []report.Blocker
	leftBehind []report.Blocker
	// incomplete says that there may be more children than are known, and marking that some that
	// stay have not lost or got their marks yet.
	incomplete, marking bool
}

type verdict struct {
	target
	// outcome is what happens to the child in the end.
	outcome v1alpha1.DeletionPolicy
	// waits says that it isn't the child's turn, request that its deletion or release is to be
	// requested now, and leftBehind that it is no longer waited for.
	waits, request, leftBehind bool
	blocker                    *report.Blocker
	retryAfter                 time.Duration
}

// The targets are in the order of their deletion.
func (r Remaining) partition(policies inventory.Policies) (targets []target, staying []verdict) {
	for _, child := range r.Children {
		c := targetOf(child)
		policy := policies.At(c.place, child)
		switch {
		case child.GetDeletionTimestamp() != nil:
			targets = append(targets, c)
		case r.ReleasedElsewhere:
		case policy == v1alpha1.DeletionRetain && !inventory.IsOwnedBy(child, r.Instance) && (c.place.OnDelete == policy || inventory.IsRetained(child)):
			staying = append(staying, verdict{target: c, outcome: policy})
		case policy == v1alpha1.DeletionRetain:
			staying = append(staying, r.releaseVerdict(c, policy))
		case policy == v1alpha1.DeletionOrphan || r.Policy == report.Orphan:
			staying = append(staying, r.releaseVerdict(c, v1alpha1.DeletionOrphan))
		default:
			targets = append(targets, c)
		}
	}
	return sortForDeletion(r.orderByUsages(targets)), staying
}

func (r Remaining) releaseVerdict(c target, outcome v1alpha1.DeletionPolicy) verdict {
	v := verdict{target: c, outcome: outcome}
	v.request, v.blocker, v.retryAfter = r.decideRequest(c, "release")
	return v
}

// It adds what keeps all children from being touched: the instance is protected or in use, its deletion policies are
// invalid, or not all children are known.
func (t *teardown) checkPreconditions(problems diag.List) {
	self := target{Unstructured: t.Instance}
	if reason, protected := inventory.Protection(t.Instance); protected {
		t.blockers = append(t.blockers, *t.newBlocker(self, report.Protected, protectedMessage(reason), t.Now))
	}
	if blocker := t.instanceUsageBlocker(); blocker != nil {
		t.blockers = append(t.blockers, *blocker)
	}
	if err := problems.Err(); err != nil {
		t.blockers = append(t.blockers, *t.newBlocker(self, report.Protected, "nothing is deleted while the deletion policy is invalid: "+err.Error(), t.Now))
	}
	if t.InventoryTampered {
		t.incomplete = true
		t.blockers = append(t.blockers, *t.newBlocker(self, report.OutOfReach,
			"its inventory was modified ("+v1alpha1.ApplySetKindsAnnotation+"), and its definition isn't available to complete it", t.Now))
	}
	byName := func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) }
	for _, gvk := range slices.SortedFunc(maps.Keys(t.Unreadable), byName) {
		unreadable := t.Unreadable[gvk]
		b := t.unreadableKindBlocker(gvk, unreadable)
		switch {
		case unreadable.Reason == Syncing:
			t.incomplete = true
		case t.leavesBehind(b):
			t.leftBehind = append(t.leftBehind, b)
		default:
			t.blockers = append(t.blockers, b)
			t.incomplete = true
		}
	}
}

// Such a blocker is no longer waited for: an annotation names it, or it exceeds forceAfter.
func (t *teardown) leavesBehind(b report.Blocker) bool {
	if t.forced.Matches(b.Node, b.Object.Kind, b.Object.Name) {
		return true
	}
	since := t.Instance.GetDeletionTimestamp().Time
	if b.Since.After(since) {
		since = b.Since.Time
	}
	return t.exceeds(t.limits.ForceAfter, since)
}

// A limit of 0 is none. If the limit hasn't passed, the next decision is scheduled for when it has.
func (t *teardown) exceeds(limit time.Duration, since time.Time) bool {
	if limit <= 0 {
		return false
	}
	left := limit - t.Now.Sub(since)
	t.retryIn(left)
	return left <= 0
}

func (r Remaining) decideInOrder(children []target, q deletionOrder, leavesBehind func(report.Blocker) bool) []verdict {
	out := make([]verdict, 0, len(children))
	for _, c := range children {
		v := verdict{target: c, outcome: v1alpha1.DeletionDelete, waits: !c.unordered && q.mustWait(c)}
		if !v.waits {
			v.request, v.blocker, v.retryAfter = r.decideDeletion(c)
			v.leftBehind = v.blocker != nil && leavesBehind(*v.blocker)
		}
		switch {
		case v.leftBehind:
		case c.blocksOnlyDependents():
			q.addLingering(c)
		default:
			q.addRemaining(c)
		}
		out = append(out, v)
	}
	return out
}

func (m *RemovalStep) addVerdict(v verdict) {
	m.retryIn(v.retryAfter)
	switch {
	case !v.request:
	case v.outcome == v1alpha1.DeletionOrphan:
		m.Release = append(m.Release, v.Unstructured)
	case v.outcome == v1alpha1.DeletionRetain:
		m.Retain = append(m.Retain, v.Unstructured)
	default:
		m.Delete = append(m.Delete, v.Unstructured)
	}
}

func (t *teardown) applyVerdicts(verdicts []verdict) {
	for _, v := range verdicts {
		if v.outcome != v1alpha1.DeletionDelete && v.blocker != nil {
			v.leftBehind = t.leavesBehind(*v.blocker)
		}
		if v.leftBehind {
			t.leftBehind = append(t.leftBehind, *v.blocker)
			t.disown(v)
			continue
		}
		if v.blocker != nil {
			t.blockers = append(t.blockers, *v.blocker)
		}
		switch v.outcome {
		case v1alpha1.DeletionRetain:
			t.marking = t.marking || v.request || v.blocker != nil
		case v1alpha1.DeletionOrphan:
			t.marking = true // until the cache doesn't have it any more
		default:
			t.remaining = append(t.remaining, v.target)
		}
		t.addVerdict(v)
	}
}

// The garbage collector keeps it. If that is refused the deletion continues: it is forced.
func (t *teardown) disown(v verdict) {
	if v.blocker.Reason != report.Protected || !inventory.IsOwnedBy(v.Unstructured, t.Instance) {
		return
	}
	request, blocker, retryAfter := t.decideRequest(v.target, "release")
	if blocker != nil {
		return
	}
	t.marking = true
	t.retryIn(retryAfter)
	if request {
		t.Disown = append(t.Disown, v.Unstructured)
	}
}

// hasOurFinalizer reports whether the instance has a finalizer of its definition.
func (t *teardown) hasOurFinalizer() bool {
	return slices.ContainsFunc(t.Instance.GetFinalizers(), inventory.IsFinalizer)
}

// It reports foreign finalizers that keep the instance, once ours is removed and all children are gone.
func (t *teardown) addForeignFinalizerBlocker() {
	if t.hasOurFinalizer() || t.marking || len(t.remaining) > 0 {
		return
	}
	self := target{Unstructured: t.Instance}
	blocker, delay := t.finalizerBlocker(self)
	if t.findReported(*blocker) == nil {
		firstSeen := t.attemptsOf(self).FirstSeen
		if firstSeen.IsZero() {
			firstSeen = t.Now
		}
		if left := delay - t.Now.Sub(firstSeen); left > 0 {
			t.retryIn(left)
			return
		}
	}
	t.blockers = append(t.blockers, *blocker)
}

func (t *teardown) finish() {
	t.Done = t.hasOurFinalizer() && !t.incomplete && !t.marking && len(t.remaining) == 0 && len(t.blockers) == 0 && t.mayRemoveFinalizer()
	d := t.deletionStatus()
	if before := t.Reported.Deletion; before != nil {
		switch wait := t.reportDelay(*before, d); {
		case t.Done && len(before.Blockers) == 0 && before.Left == d.Left:
			d = *before // the last count is not reported: the instance is removed
		case wait > 0:
			t.retryIn(wait)
			d = *before
		}
	}
	t.Deletion = d
	t.Stalled = t.exceeds(t.limits.Timeout, t.Instance.GetDeletionTimestamp().Time)
}

// If that was refused before, it is repeated with delay, and the refusal is reported.
func (t *teardown) mayRemoveFinalizer() bool {
	self := target{Unstructured: t.Instance}
	refusal := t.attemptsOf(self).Refusal
	if refusal.Reason == "" {
		return true
	}
	t.blockers = append(t.blockers, *t.newBlocker(self, refusal.Reason, refusal.Message, refusal.Since))
	left := refusal.nextAttempt(t.Instance).Sub(t.Now)
	t.retryIn(left)
	return left <= 0
}

// ReleaseReason returns the annotation of the instance that left a blocker behind; empty if its definition says so.
func ReleaseReason(instance *unstructured.Unstructured, overrides inventory.Overrides, b report.Blocker) (annotation string) {
	if inventory.ForcedOf(instance, overrides).Matches(b.Node, b.Object.Kind, b.Object.Name) {
		return v1alpha1.ForceDeleteAnnotation
	}
	if _, own := instance.GetAnnotations()[v1alpha1.ForceAfterAnnotation]; own && overrides.AllowsForceDelete() {
		return v1alpha1.ForceAfterAnnotation
	}
	return ""
}

// DeletionMessage is the message of an instance's conditions about its deletion.
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
			deepest := b.RootCause()
			described := fmt.Sprintf("%s: %s: %s", deepest.Object, deepest.Reason, deepest.Message)
			if deepest.InProgress {
				waiting = append(waiting, described)
			} else {
				blocked = append(blocked, described)
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
	return diag.TruncateMiddle(text, maxMessageLength)
}
