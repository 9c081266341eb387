package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// How long the deletion of a child may take before it is reported as a blocker: most take
// milliseconds, and each report is a write on every layer above.
const (
	// actionableDelay is for a blocker that needs an action of a user.
	actionableDelay = 200 * time.Millisecond
	// collectorDelay is for the garbage collector, which discovers new kinds with a delay.
	collectorDelay = 5 * time.Second
	// instanceDelay is for an instance with a controller that has not begun its deletion: once it has, the instance
	// reports its own blockers, and among many instances it is queued.
	instanceDelay = 15 * time.Second
	// unresponsiveDelay is for an object without finalizers that is terminating and unchanged.
	unresponsiveDelay = 30 * time.Second
	// acceptedDelay is for a request that was accepted, without an observed effect.
	acceptedDelay = 10 * time.Second
)

// It decides about a child, when its turn comes, whether to request its deletion, which blocker to report, if any, and
// after how long to decide again; 0 for on the next event.
func (r Remaining) decideDeletion(c target) (request bool, blocker *report.Blocker, retryAfter time.Duration) {
	if c.GetDeletionTimestamp() != nil {
		blocker, retryAfter = r.terminatingBlocker(c)
		return false, blocker, retryAfter
	}
	if reason, protected := inventory.Protection(c.Unstructured); protected {
		return false, r.newBlocker(c, report.Protected, protectedMessage(reason), r.Now), 0
	}
	if blocker, used := r.usageBlocker(c); used {
		return false, blocker, 0 // the end of the usage triggers the next reconcile
	}
	return r.decideRequest(c, "deletion")
}

// The request is made for the first time or again; what names the child in messages.
func (r Remaining) decideRequest(c target, what string) (request bool, blocker *report.Blocker, retryAfter time.Duration) {
	t := r.attemptsOf(c)
	if t.Refusal.Reason != "" {
		blocker = r.newBlocker(c, t.Refusal.Reason, t.Refusal.Message, t.Refusal.Since)
		transient := t.Refusal.Reason == report.OutOfReach || t.Refusal.Reason == report.WebhookUnavailable
		if transient && r.findReported(*blocker) == nil && r.Now.Sub(t.Refusal.Since) < actionableDelay {
			blocker = nil // the next attempt may succeed
		}
		left := t.Refusal.nextAttempt(c.Unstructured).Sub(r.Now)
		return left <= 0, blocker, max(0, left)
	}
	if t.AcceptedAt.IsZero() {
		return true, nil, 0
	}
	if left := acceptedDelay - r.Now.Sub(t.AcceptedAt); left > 0 {
		return false, nil, left
	}
	return true, r.newBlocker(c, report.OutOfReach, "its "+what+" was accepted and is not observed yet", t.AcceptedAt), acceptedDelay
}

func protectedMessage(reason string) string {
	if reason == "" {
		reason = "no reason given"
	}
	return fmt.Sprintf("protected: %s; remove the annotation %s to allow its deletion", reason, v1alpha1.ProtectAnnotation)
}

// terminatingBlocker returns what blocks a child that is being deleted if that is to be
// reported now, or else after how long it is.
func (r Remaining) terminatingBlocker(c target) (blocker *report.Blocker, retryAfter time.Duration) {
	if blocker, known := r.terminatingUsageBlocker(c); known {
		return blocker, 0
	}
	blocker, delay := r.findBlocker(c)
	if r.findReported(*blocker) != nil {
		return blocker, 0
	}
	t := r.attemptsOf(c)
	since := t.FirstSeen
	if delay >= unresponsiveDelay {
		since = t.ChangedAt
	}
	if since.IsZero() {
		since = r.Now
	}
	if left := graceAfter(c.Unstructured, since) + delay - r.Now.Sub(since); left > 0 {
		return nil, left
	}
	return blocker, 0
}

// The object names its end by the clock of the API server, which may differ from this one: it is at most the whole
// period.
func graceAfter(o *unstructured.Unstructured, since time.Time) time.Duration {
	seconds := ptr.Deref(o.GetDeletionGracePeriodSeconds(), 0)
	return min(max(0, o.GetDeletionTimestamp().Sub(since)), time.Duration(seconds)*time.Second)
}

// The blocker is returned as far as it is known, with the delay until it is reported.
func (r Remaining) findBlocker(c target) (blocker *report.Blocker, delay time.Duration) {
	since := c.GetDeletionTimestamp().Time
	if inventory.IsInstance(c.Unstructured) && slices.ContainsFunc(c.GetFinalizers(), inventory.IsFinalizer) {
		return r.instanceBlocker(c)
	}
	if nested := report.ReadDeletion(c.Unstructured); nested != nil && inventory.ReportsDeletion(c.Unstructured) && len(nested.Blockers) > 0 {
		return r.childBlocker(c, *nested), 0 // reported by another engine
	}
	switch {
	case len(c.GetFinalizers()) == 0:
		return r.unresponsiveBlocker(c), unresponsiveDelay
	case isKeptByUsageFinalizer(c):
		blocker, _ = r.finalizerBlocker(c)
		return blocker, instanceDelay // its controller reports first
	case slices.Contains(c.GetFinalizers(), report.ExternalFinalizer):
		if len(c.GetFinalizers()) > 1 {
			return r.finalizerBlocker(c) // providers wait for the other finalizers
		}
		message, inProgress := ExternalDeletion(c.Unstructured)
		blocker = r.newBlocker(c, report.ExternalDeletion, message, since)
		blocker.InProgress = inProgress
		return blocker, actionableDelay
	}
	return r.finalizerBlocker(c)
}

func (r Remaining) instanceBlocker(c target) (blocker *report.Blocker, delay time.Duration) {
	nested := report.ReadDeletion(c.Unstructured)
	synced, _ := condition.Read(c.Unstructured).Get(health.Synced)
	switch ready, _ := health.ReadyConditionOf(c.Unstructured); {
	case synced.Status == condition.False && synced.Reason == resource.ReconcilePaused: // what it reported before may be over
		return r.newBlocker(c, report.ChildBlocked, "its status says: "+synced.Message, c.GetDeletionTimestamp().Time), actionableDelay
	case nested != nil && len(nested.Blockers) > 0:
		return r.childBlocker(c, *nested), 0
	case nested != nil:
		return r.unresponsiveBlocker(c), 2 * unresponsiveDelay // its own children are reported first
	case ready.Reason == "Deleting": // the status of its kind has no field for blockers
		return r.newBlocker(c, report.ChildBlocked, "its status says: "+ready.Message, c.GetDeletionTimestamp().Time), collectorDelay
	}
	blocker, _ = r.finalizerBlocker(c)
	return blocker, instanceDelay
}

func (r Remaining) childBlocker(c target, nested report.Deletion) *report.Blocker {
	root := nested.Blockers[0].RootCause().Truncated()
	blocker := r.newBlocker(c, report.ChildBlocked, fmt.Sprintf("waits for %s: %s: %s", root.Object, root.Reason, root.Message), r.Now)
	blocker.Cause = &root
	return blocker
}

func (r Remaining) unresponsiveBlocker(c target) *report.Blocker {
	return r.newBlocker(c, report.OutOfReach, "is being deleted without progress; the controller of its kind might not be running", c.GetDeletionTimestamp().Time)
}

func (r Remaining) finalizerBlocker(c target) (blocker *report.Blocker, delay time.Duration) {
	t := r.attemptsOf(c)
	finalizers := t.Finalizers
	if !t.KnowsFinalizersOf(c.Unstructured) {
		finalizers = nil
		for _, name := range c.GetFinalizers() {
			finalizers = append(finalizers, report.Finalizer{Name: name})
		}
	}
	blocker = r.newBlocker(c, report.HeldByFinalizer, describeFinalizers(finalizers), c.GetDeletionTimestamp().Time)
	blocker.Finalizers = finalizers
	blocker.BlockedObject = blocker.Truncated()
	ofOthers := func(name string) bool {
		return name != metav1.FinalizerDeleteDependents && name != metav1.FinalizerOrphanDependents && name != report.ExternalFinalizer
	}
	if !slices.ContainsFunc(c.GetFinalizers(), ofOthers) {
		return blocker, collectorDelay
	}
	return blocker, actionableDelay
}

// describeFinalizers names finalizers and the managers that added them. The finalizer of a
// provider, which is removed last, is named as what it stands for.
func describeFinalizers(finalizers []report.Finalizer) string {
	var texts []string
	external := ""
	for _, f := range finalizers {
		if f.Name == report.ExternalFinalizer {
			external = "; the external resource still exists"
			continue
		}
		text := f.Name
		if len(f.Managers) > 0 {
			text += ", added by " + strings.Join(f.Managers, " and ")
		}
		texts = append(texts, text)
	}
	noun := "finalizer"
	if len(texts) > 1 {
		noun = "finalizers"
	}
	return "held by " + noun + " " + strings.Join(texts, "; ") + external
}

// reportsFailure reports whether the conditions of a managed resource report a failure, or that its provider doesn't
// reconcile it.
func reportsFailure(o *unstructured.Unstructured) bool {
	set := condition.Read(o)
	for _, kind := range []string{"Synced", "LastAsyncOperation"} {
		if c, ok := set.Get(kind); ok && c.Status == condition.False {
			return true
		}
	}
	return false
}

// ExternalDeletion is what a managed resource reports about the deletion of its external resource, and whether it is in
// progress.
func ExternalDeletion(o *unstructured.Unstructured) (message string, inProgress bool) {
	return externalDeletionMessage(o), !reportsFailure(o)
}

// externalDeletionMessage is what a managed resource reports about the deletion of its external
// resource: the first of its conditions that isn't true.
func externalDeletionMessage(o *unstructured.Unstructured) string {
	set := condition.Read(o)
	for _, kind := range []string{"Synced", "LastAsyncOperation", "Ready"} {
		c, ok := set.Get(kind)
		if !ok || c.Status == condition.True {
			continue
		}
		text := "the external resource still exists: " + c.Reason
		if c.Message != "" {
			text += ": " + c.Message
		}
		return text
	}
	return "the external resource still exists"
}

func (r Remaining) unreadableKindBlocker(gvk schema.GroupVersionKind, unreadable Unreadable) report.Blocker {
	reason := report.OutOfReach
	switch unreadable.Reason {
	case WaitingForKind:
		reason = report.KindUnavailable
	case Forbidden:
		reason = report.Forbidden
	default:
	}
	since := unreadable.Since
	if since.IsZero() {
		since = r.Now
	}
	b := report.Blocker{BlockedObject: report.BlockedObject{
		Object: report.Object{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind},
		Reason: reason, Message: "cannot determine which objects remain: " + unreadable.Message,
	}}
	return r.dated(b, since)
}

// The blocker lasts since the reported time if the status contains it already, or else since the given time.
func (r Remaining) newBlocker(c target, reason report.Reason, message string, since time.Time) *report.Blocker {
	b := r.dated(report.Blocker{Node: c.place.Node, BlockedObject: report.BlockedObject{Object: report.ObjectOf(c), Reason: reason, Message: message}}, since)
	return &b
}

// A blocker lasts from when it was first reported, or else from when it began.
func (r Remaining) dated(b report.Blocker, began time.Time) report.Blocker {
	b.Since = report.At(began)
	if reported := r.findReported(b); reported != nil {
		b.Since = reported.Since
	}
	b.BlockedObject = b.Truncated()
	return b
}
