package instance

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/watch"
)

// observe gathers facts from caches alone and composes what the instance wants.
// Every watch is declared before the read that it keeps fresh. Composing may name
// further objects to read; it is repeated until it names no new one.
func (r *Reconciler) observe(ctx context.Context, v *visit) error {
	v.facts.Instance = v.instance
	v.facts.Now = r.Now()
	v.facts.Owned = map[string][]*unstructured.Unstructured{}
	v.facts.Unread = map[schema.GroupVersionKind]plan.Blind{}
	v.facts.External = map[plan.Need]plan.Look{}
	v.facts.Blind = nil
	if v.facts.Problems == nil {
		v.facts.Problems = map[string]plan.Problem{}
	}
	r.observeChildren(ctx, v)
	r.observeBlockers(v)
	for {
		desired, err := v.composer.Compose(ctx, v.facts, world{r, v, ctx})
		if err != nil {
			return fmt.Errorf("compose: %w", err)
		}
		v.desired = desired
		if needed, found := r.observeNeeds(v), r.observeNewcomers(v); !needed && !found {
			break
		}
	}
	v.forgetBlockers()
	if v.desired.Failure != nil {
		v.failures = append(v.failures, v.desired.Failure)
	}
	return nil
}

// observeNewcomers looks at the kinds of nodes that the composer didn't name
// beforehand, and reports whether the instance has objects of them already.
func (r *Reconciler) observeNewcomers(v *visit) (found bool) {
	for _, node := range v.desired.Nodes {
		if node.External || node.Kind.Kind == "" || v.looked[node.Kind.GroupKind()] {
			continue
		}
		found = r.observeKind(v, node.Kind) || found
	}
	return found
}

// rewatch watches, before the first pass over an instance, what it recorded that
// it has children of. After a restart these are its watches until a pass has
// succeeded; one that fails, or that has no composer, must not leave it deaf.
func (r *Reconciler) rewatch(ctx context.Context, v *visit) {
	if v.memory.rewatched {
		return
	}
	v.memory.rewatched = true
	lease := r.World.Begin(watch.Subscriber{Key: v.key})
	defer lease.Commit()
	for _, gk := range inventory.Read(v.instance).GroupKinds() {
		gvk, standing, err := r.Kinds.Standing(ctx, gk)
		switch {
		case err != nil:
			v.memory.rewatched = false // the next pass tries again
		case standing != cluster.Gone:
			lease.Want(watch.ChildrenOf(gvk, v.owner.ID()))
		}
	}
}

// observeChildren reads the instance's own objects of every kind that it writes
// now or wrote before.
func (r *Reconciler) observeChildren(ctx context.Context, v *visit) {
	v.unread, v.lookup = nil, nil
	kinds := v.composer.Written()
	known := map[schema.GroupKind]bool{}
	for _, gvk := range kinds {
		known[gvk.GroupKind()] = true
	}
	for _, gk := range inventory.Read(v.instance).GroupKinds() {
		if known[gk] {
			continue
		}
		gvk, standing, err := r.Kinds.Standing(ctx, gk)
		switch {
		case err != nil:
			v.unread = append(v.unread, gk)
			v.facts.Unread[gk.WithVersion("")] = plan.Blind{Problem: plan.Problem{Reason: plan.Unavailable, Message: err.Error()}}
			v.lookup = err
		case standing != cluster.Gone:
			kinds = append(kinds, gvk)
		}
	}
	v.looked = make(map[schema.GroupKind]bool, len(kinds))
	for _, gvk := range kinds {
		r.observeKind(v, gvk)
	}
	r.observeReferred(v)
}

// observeKind reads the instance's own objects of a kind, and reports whether there are
// any.
func (r *Reconciler) observeKind(v *visit, gvk schema.GroupVersionKind) bool {
	v.looked[gvk.GroupKind()] = true
	children, state := v.lease.Children(gvk, v.owner.ID())
	blind := blindness(gvk, state)
	switch {
	case blind != nil:
	case r.Kinds.Terminating(gvk.GroupKind()):
		blind = waitingForKind("the CustomResourceDefinition of " + gvk.Kind + " is being deleted, and its objects with it; it continues when the kind is installed again")
	case v.composer.Untyped(gvk):
		r.Wake()
		blind = waitingForKind(recompiled)
	}
	if blind != nil {
		v.unread = append(v.unread, gvk.GroupKind())
		v.facts.Unread[gvk] = *blind
	}
	for _, child := range children {
		v.own(inventory.Node(child), child)
	}
	return len(children) > 0
}

// own notes a child of the instance, as its status tells of it.
func (v *visit) own(node string, child *unstructured.Unstructured) {
	v.facts.Owned[node] = append(v.facts.Owned[node], v.memory.asObserved(child))
}

// observeNeeds reads what the composition asked for and reports whether that
// was anything new.
func (r *Reconciler) observeNeeds(v *visit) bool {
	fresh := false
	for _, need := range v.desired.Needs {
		if _, looked := v.facts.External[need]; looked {
			continue
		}
		look := v.look(need)
		if look.Blind == nil && v.composer.Untyped(need.Kind) {
			r.Wake()
			look.Blind = waitingForKind(recompiled)
		}
		if look.Blind != nil {
			look.Object, look.Objects = nil, nil
		}
		v.facts.External[need] = look
		fresh = true
	}
	return fresh
}

// look reads what somebody else keeps, and watches it.
func (v *visit) look(need plan.Need) plan.Look {
	if !need.Several {
		found, state := v.lease.Object(need.Kind, need.Namespace, need.Name)
		return plan.Look{Object: found, Blind: blindness(need.Kind, state)}
	}
	selector, err := labels.Parse(need.Selector)
	if err != nil {
		return plan.Look{Blind: &plan.Blind{Problem: plan.Problem{Reason: plan.EvaluationFailed, Message: err.Error()}}}
	}
	found, state := v.lease.Matching(need.Kind, need.Namespace, selector)
	return plan.Look{Objects: found, Blind: blindness(need.Kind, state)}
}

// How long a pass waits for first reads before it reports that it is waiting for
// them. A list usually takes milliseconds, and saying so would cost a write. An
// instance that has said how it is already has more patience: after a restart,
// many thousands of objects are read before it may be looked at, and it is as it
// was.
const (
	shortly  = 2 * time.Second
	asBefore = time.Minute
)

// patience ends the pass, once the nodes that can go on have, while a watch that
// others need is only just starting. The watch wakes the instance when it has
// caught up.
func (v *visit) patience(now time.Time) outcome.Outcome {
	while := shortly
	if said, ok := condition.Read(v.instance).Get(v1alpha1.InstanceReady); ok && said.ObservedGeneration == v.instance.GetGeneration() {
		while = asBefore
	}
	left := v.facts.Patience(now, while)
	if left <= 0 || len(v.failures) > 0 {
		return outcome.Outcome{}
	}
	v.lease.Commit()
	return outcome.Wait(left)
}

// blindness says why a kind can't be read now; nil when it can.
func blindness(gvk schema.GroupVersionKind, s watch.State) *plan.Blind {
	problem := plan.Problem{Reason: plan.Unavailable, Message: s.Message}
	switch {
	case s.Phase == watch.Synced:
		return nil
	case s.Phase == watch.Syncing, s.Phase == watch.Unwatched:
		problem = plan.Problem{Reason: plan.Syncing, Message: "reading " + gvk.Kind + " objects"}
	case s.Reason == watch.WaitingForKind:
		problem = plan.Problem{Reason: plan.WaitingForKind, Message: fmt.Sprintf("no server knows kind %s of %s; it continues when the kind is installed", gvk.Kind, gvk.GroupVersion())}
	case s.Reason == watch.Forbidden:
		problem.Reason = plan.Forbidden
	}
	return &plan.Blind{Problem: problem, Since: s.Since}
}

const recompiled = "the kind is there; it continues when the definition has been compiled with it, and what is in the way of that is said by the definition's condition GraphAccepted"

func waitingForKind(message string) *plan.Blind {
	return &plan.Blind{Problem: plan.Problem{Reason: plan.WaitingForKind, Message: message}}
}

// waitsSince reads from an instance's status since when it has been waiting for
// what, so that limits hold across restarts.
func waitsSince(instance *unstructured.Unstructured) map[plan.WaitKey]time.Time {
	out := map[plan.WaitKey]time.Time{}
	for _, w := range report.ReadWaiting(instance) {
		out[plan.WaitKey{Node: w.Node, On: w.On}] = w.Since.Time
	}
	return out
}
