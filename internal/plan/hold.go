package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/report"
)

// How long a child may take to go before it is told as a blocker: most take
// milliseconds, and each telling is a write. An instance tells for itself what
// holds it up, once somebody has looked at it, for which it may have to wait behind
// a crowd.
const (
	shortWhile    = 200 * time.Millisecond
	instanceWhile = 15 * time.Second
)

// externalFinalizer is put on managed resources by the runtimes of their
// providers, and taken off when the external resource is gone.
const externalFinalizer = "finalizer.managedresource.crossplane.io"

// look says what to do about a child whose turn it is: ask it to go, or not, and
// what holds it up, if that is to be told. Again is when to look again.
func (r Remains) look(c leaver) (ask bool, held *report.Blocker, again time.Duration) {
	if c.GetDeletionTimestamp() == nil {
		if reason, protected := inventory.Protection(c.Unstructured); protected {
			return false, r.blocker(c, report.Protected, protectedBecause(reason), r.Now), 0
		}
		if refusal, refused := r.Tried.Refusals[c.GetUID()]; refused {
			held := r.blocker(c, refusal.Reason, refusal.Message, refusal.Since)
			if !r.toldBefore(*held) && refusal.Reason == report.OutOfReach && r.Now.Sub(refusal.Since) < shortWhile {
				held = nil // it may have passed by then
			}
			return refusal.due(c.Unstructured, r.Now), held, max(0, refusal.Next.Sub(r.Now))
		}
		return !r.Tried.Asked[c.GetUID()], nil, 0
	}
	held, patience := r.onItsWay(c)
	if held == nil || r.toldBefore(*held) {
		return false, held, 0
	}
	if left := r.patience(c.Unstructured, patience); left > 0 {
		return false, nil, left
	}
	return false, held, 0
}

// patience is how much is left of a while since an object was first seen on its
// way.
func (r Remains) patience(o *unstructured.Unstructured, while time.Duration) time.Duration {
	noticed, ok := r.Tried.Noticed[o.GetUID()]
	if !ok {
		noticed = r.Now
	}
	return while - r.Now.Sub(noticed)
}

func protectedBecause(reason string) string {
	if reason == "" {
		reason = "no reason given"
	}
	return fmt.Sprintf("protected: %s; it goes when the annotation %s is taken off", reason, v1alpha1.ProtectAnnotation)
}

// onItsWay says what keeps a child that is being deleted, and how long that may
// take before it is told.
func (r Remains) onItsWay(c leaver) (held *report.Blocker, patience time.Duration) {
	since := c.GetDeletionTimestamp().Time
	nested := report.ReadDeletion(c.Unstructured)
	switch {
	case nested != nil && len(nested.Blockers) > 0:
		deepest := nested.Blockers[0].Deepest()
		held = r.blocker(c, report.ChildBlocked, fmt.Sprintf("waits for %s: %s: %s", deepest.Object, deepest.Reason, deepest.Message), r.Now)
		held.Cause = &deepest
		return held, 0
	case nested != nil, len(c.GetFinalizers()) == 0:
		return nil, 0 // it is being taken apart, or only just going
	case slices.Contains(c.GetFinalizers(), externalFinalizer):
		return r.blocker(c, report.ExternalDeletion, externally(c.Unstructured), since), shortWhile
	}
	return r.byFinalizers(c)
}

// byFinalizers says which finalizers keep an object, and how long that may take
// before it is told.
func (r Remains) byFinalizers(c leaver) (held *report.Blocker, patience time.Duration) {
	finalizers := r.Tried.Finalizers[c.GetUID()]
	if len(finalizers) == 0 {
		for _, name := range c.GetFinalizers() {
			finalizers = append(finalizers, report.Finalizer{Name: name})
		}
	}
	held = r.blocker(c, report.HeldByFinalizer, heldBy(finalizers), c.GetDeletionTimestamp().Time)
	held.Finalizers = finalizers
	if inventory.IsInstance(c.Unstructured) && slices.ContainsFunc(c.GetFinalizers(), inventory.IsFinalizer) {
		return held, instanceWhile
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
func (r Remains) blindKind(gvk schema.GroupVersionKind, blind Blind) report.Blocker {
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
	b.Since = report.At(r.since(b, since))
	return b
}

// blocker is a blocker of a child, since the given time, unless the status tells
// of it already.
func (r Remains) blocker(c leaver, reason report.Reason, message string, since time.Time) *report.Blocker {
	b := report.Blocker{Node: c.at.Node, Hold: report.Hold{Object: report.ObjectOf(c), Reason: reason, Message: diag.Cut(message, longestReason)}}
	b.Since = report.At(r.since(b, since))
	return &b
}

// longestReason bounds what is told of one blocker: it is repeated on every
// ancestor.
const longestReason = 512

// since is when a blocker was first told of, or else when it began.
func (r Remains) since(b report.Blocker, began time.Time) time.Time {
	for _, told := range r.told() {
		if told.Object == b.Object && told.Reason == b.Reason {
			return told.Since.Time
		}
	}
	return began
}

func (r Remains) toldBefore(b report.Blocker) bool {
	return slices.ContainsFunc(r.told(), func(told report.Blocker) bool { return told.Object == b.Object && told.Reason == b.Reason })
}

// told is what the status tells of what isn't going.
func (r Remains) told() []report.Blocker {
	if r.Before.Deletion != nil {
		return r.Before.Deletion.Blockers
	}
	return r.Before.Pruning
}
