package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// How long a child may take to go before it is told as a blocker: most take
// milliseconds, and each telling is a write on every layer above.
const (
	// shortWhile is for what somebody has to see to.
	shortWhile = 200 * time.Millisecond
	// collectorWhile is for the garbage collector, which learns of new kinds in its
	// own time.
	collectorWhile = 5 * time.Second
	// instanceWhile is for an instance that nobody has begun to take apart: it tells
	// for itself what holds it up, once somebody has, and in a crowd it waits for its
	// turn.
	instanceWhile = 15 * time.Second
	// quietWhile is for what is on its way, with nothing in it, and doesn't change.
	quietWhile = 30 * time.Second
	// grantedWhile is for what was granted and doesn't show.
	grantedWhile = 10 * time.Second
)

// externalFinalizer is put on managed resources by the runtimes of their
// providers, and taken off when the external resource is gone.
const externalFinalizer = "finalizer.managedresource.crossplane.io"

// look says what to do about a child whose turn it is: ask it to go, or not, and
// what holds it up, if that is to be told. Again is when to look again.
func (r Remaining) look(c leaver) (ask bool, held *report.Blocker, again time.Duration) {
	if c.GetDeletionTimestamp() != nil {
		held, again = r.onItsWay(c)
		return false, held, again
	}
	if reason, protected := inventory.Protection(c.Unstructured); protected {
		return false, r.blocker(c, report.Protected, protectedBecause(reason), r.Now), 0
	}
	if held, used := r.inUse(c); used {
		return false, held, 0 // the end of the usage brings the next pass
	}
	return r.asking(c, "deletion")
}

// asking says whether to ask for something about a child, or once more.
func (r Remaining) asking(c leaver, what string) (ask bool, held *report.Blocker, again time.Duration) {
	t := r.trial(c)
	if t.Refusal.Reason != "" {
		held = r.blocker(c, t.Refusal.Reason, t.Refusal.Message, t.Refusal.Since)
		passing := t.Refusal.Reason == report.OutOfReach || t.Refusal.Reason == report.WebhookUnavailable
		if passing && r.toldOf(*held) == nil && r.Now.Sub(t.Refusal.Since) < shortWhile {
			held = nil // it may have passed by then
		}
		left := t.Refusal.next(c.Unstructured).Sub(r.Now)
		return left <= 0, held, max(0, left)
	}
	if t.Asked.IsZero() {
		return true, nil, 0
	}
	if left := grantedWhile - r.Now.Sub(t.Asked); left > 0 {
		return false, nil, left
	}
	return true, r.blocker(c, report.OutOfReach, "its "+what+" was granted, and nothing has come of it", t.Asked), grantedWhile
}

func protectedBecause(reason string) string {
	if reason == "" {
		reason = "no reason given"
	}
	return fmt.Sprintf("protected: %s; it goes when the annotation %s is taken off", reason, v1alpha1.ProtectAnnotation)
}

// onItsWay says what keeps a child that is being deleted, if that is to be told
// yet, and when it will be.
func (r Remaining) onItsWay(c leaver) (held *report.Blocker, again time.Duration) {
	if held, tells := r.stayingUsage(c); tells {
		return held, 0
	}
	held, patience := r.keeping(c)
	if r.toldOf(*held) != nil {
		return held, 0
	}
	t := r.trial(c)
	since := t.Noticed
	if patience >= quietWhile {
		since = t.Changed
	}
	if since.IsZero() {
		since = r.Now
	}
	given := max(0, c.GetDeletionTimestamp().Sub(r.Now)) // to end in an orderly way
	if left := given + patience - r.Now.Sub(since); left > 0 {
		return nil, left
	}
	return held, 0
}

// keeping says what keeps a child that is being deleted, as far as can be told,
// and how long that may take before it is.
func (r Remaining) keeping(c leaver) (held *report.Blocker, patience time.Duration) {
	since := c.GetDeletionTimestamp().Time
	if inventory.IsInstance(c.Unstructured) && slices.ContainsFunc(c.GetFinalizers(), inventory.IsFinalizer) {
		return r.instance(c)
	}
	if told := report.ReadDeletion(c.Unstructured); told != nil && inventory.TellsDeletion(c.Unstructured) && len(told.Blockers) > 0 {
		return r.childBlocked(c, *told), 0 // what others keep it for
	}
	switch {
	case len(c.GetFinalizers()) == 0:
		return r.quiet(c), quietWhile
	case keptAsUsage(c):
		held, _ = r.byFinalizers(c)
		return held, instanceWhile // it has something to see to first
	case slices.Contains(c.GetFinalizers(), externalFinalizer):
		held = r.blocker(c, report.ExternalDeletion, externally(c.Unstructured), since)
		held.InProgress = !reportsFailure(c.Unstructured)
		return held, shortWhile
	}
	return r.byFinalizers(c)
}

// instance says what keeps an instance that is ours to take apart.
func (r Remaining) instance(c leaver) (held *report.Blocker, patience time.Duration) {
	told := report.ReadDeletion(c.Unstructured)
	switch said, _ := health.Says(c.Unstructured); {
	case told != nil && len(told.Blockers) > 0:
		return r.childBlocked(c, *told), 0
	case told != nil:
		return r.quiet(c), 2 * quietWhile // what is in it tells for itself first
	case said.Reason == "Deleting": // its kind's status has no room for more
		return r.blocker(c, report.ChildBlocked, "its status says: "+said.Message, c.GetDeletionTimestamp().Time), collectorWhile
	}
	held, _ = r.byFinalizers(c)
	return held, instanceWhile
}

func (r Remaining) childBlocked(c leaver, told report.Deletion) *report.Blocker {
	deepest := told.Blockers[0].Deepest().Cut()
	held := r.blocker(c, report.ChildBlocked, fmt.Sprintf("waits for %s: %s: %s", deepest.Object, deepest.Reason, deepest.Message), r.Now)
	held.Cause = &deepest
	return held
}

// quiet is for what should be going and tells of nothing that holds it.
func (r Remaining) quiet(c leaver) *report.Blocker {
	return r.blocker(c, report.OutOfReach, "is being deleted, and nothing has come of that for a while; whoever serves its kind may not be at work", c.GetDeletionTimestamp().Time)
}

// byFinalizers says which finalizers keep an object, and how long that may take
// before it is told.
func (r Remaining) byFinalizers(c leaver) (held *report.Blocker, patience time.Duration) {
	t := r.trial(c)
	finalizers := t.Finalizers
	if !t.Knows(c.Unstructured) {
		finalizers = nil
		for _, name := range c.GetFinalizers() {
			finalizers = append(finalizers, report.Finalizer{Name: name})
		}
	}
	held = r.blocker(c, report.HeldByFinalizer, heldBy(finalizers), c.GetDeletionTimestamp().Time)
	held.Finalizers = finalizers
	held.Hold = held.Cut()
	others := func(name string) bool {
		return name != metav1.FinalizerDeleteDependents && name != metav1.FinalizerOrphanDependents
	}
	if !slices.ContainsFunc(c.GetFinalizers(), others) {
		return held, collectorWhile
	}
	return held, shortWhile
}

// heldBy tells finalizers and who put them on.
func heldBy(finalizers []report.Finalizer) string {
	texts := make([]string, len(finalizers))
	for i, f := range finalizers {
		texts[i] = f.Name
		if len(f.Managers) > 0 {
			texts[i] += ", put on by " + strings.Join(f.Managers, " and ")
		}
	}
	noun := "finalizer"
	if len(texts) > 1 {
		noun = "finalizers"
	}
	return "held by " + noun + " " + strings.Join(texts, "; ")
}

// reportsFailure says whether a managed resource's provider reports that it can't go on, or
// doesn't look after it.
func reportsFailure(o *unstructured.Unstructured) bool {
	said := condition.Read(o)
	for _, kind := range []string{"Synced", "LastAsyncOperation"} {
		if c, ok := said.Get(kind); ok && c.Status == condition.False {
			return true
		}
	}
	return false
}

// externally tells what a managed resource says of the deletion of its external
// resource: the first of its conditions that isn't as it should be.
func externally(o *unstructured.Unstructured) string {
	said := condition.Read(o)
	for _, kind := range []string{"Synced", "LastAsyncOperation", "Ready"} {
		c, ok := said.Get(kind)
		if !ok || c.Status == condition.True {
			continue
		}
		text := "the external resource is not gone yet: " + c.Reason
		if c.Message != "" {
			text += ": " + c.Message
		}
		return text
	}
	return "the external resource is not gone yet"
}

// blindKind says why a kind's objects can't be told, as a blocker.
func (r Remaining) blindKind(gvk schema.GroupVersionKind, blind Unreadable) report.Blocker {
	reason := report.OutOfReach
	switch blind.Reason {
	case WaitingForKind:
		reason = report.KindUnavailable
	case Forbidden:
		reason = report.Forbidden
	default:
	}
	since := blind.Since
	if since.IsZero() {
		since = r.Now
	}
	b := report.Blocker{Hold: report.Hold{
		Object: report.Object{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind},
		Reason: reason, Message: "what is left of it can't be told: " + blind.Message,
	}}
	return r.since(b, since)
}

// blocker is a blocker of a child, since the given time, unless the status tells
// of it already.
func (r Remaining) blocker(c leaver, reason report.Reason, message string, since time.Time) *report.Blocker {
	b := r.since(report.Blocker{Node: c.at.Node, Hold: report.Hold{Object: report.ObjectOf(c), Reason: reason, Message: message}}, since)
	return &b
}

// since dates a blocker: from when it was first told of, or else from when it
// began.
func (r Remaining) since(b report.Blocker, began time.Time) report.Blocker {
	b.Since = report.At(began)
	if told := r.toldOf(b); told != nil {
		b.Since = told.Since
	}
	b.Hold = b.Cut()
	return b
}
