package instance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// observe gathers facts, from caches alone, and composes what the instance should consist of. A
// watch is declared before the read that it keeps fresh. Composing may name further objects to
// read; it is repeated until it names no new one.
func (r *Reconciler) observe(ctx context.Context, s *subject, n int, before round) (observation, error) {
	o := observation{facts: plan.Facts{
		Instance: s.instance, Defaults: s.composer.Defaults(), Now: r.Now(), Round: n, Limits: r.Limits.Limits, Cost: before.facts.Cost,
		External: map[plan.Need]plan.Lookup{}, Problems: map[string]plan.Problem{}, Waits: reportedWaits(s.instance),
	}}
	maps.Copy(o.facts.Waits, s.memory.waitingSince)
	maps.Copy(o.facts.Problems, before.facts.Problems)
	maps.Copy(o.facts.Problems, before.outcome.problems)
	r.observeChildren(ctx, s, &o)
	r.observeObstacles(s, &o, before.desired.Nodes, n == 0)
	for {
		desired, err := s.composer.Compose(ctx, o.facts)
		if err != nil {
			return o, fmt.Errorf("compose: %w", err)
		}
		o.desired, o.facts.Cost = desired, desired.Cost
		needed, further := r.observeNeeds(ctx, s, &o), r.observeFurtherNamespaces(ctx, s, &o)
		if found := r.observeFurtherKinds(ctx, s, &o); !needed && !further && !found {
			break
		}
	}
	r.countExceeded(o.desired)
	s.forgetObstacles(&o)
	if o.desired.Failure != nil {
		s.fail(o.desired.Failure)
	}
	return o, nil
}

// observation is what a round has observed, and what the instance should consist of according to it.
type observation struct {
	facts   plan.Facts
	desired plan.Desired
	// kinds are the kinds whose children have been looked for, and unread the kinds of those that cannot be read now.
	kinds  map[schema.GroupKind]bool
	unread []schema.GroupKind
	// lookupErr is why a recorded kind cannot be looked up.
	lookupErr error
}

func (o *observation) cannotRead(gvk schema.GroupVersionKind, why plan.Unreadable) {
	o.unread = append(o.unread, gvk.GroupKind())
	o.facts.UnreadableOwned[gvk] = why
}

// They are of every kind that the instance consists of now, or did before.
func (r *Reconciler) observeChildren(ctx context.Context, s *subject, o *observation) {
	o.facts.Owned = map[string][]*unstructured.Unstructured{}
	o.facts.UnreadableOwned = map[schema.GroupVersionKind]plan.Unreadable{}
	o.unread, o.lookupErr = nil, nil
	kinds := s.composer.ChildKinds()
	known := map[schema.GroupKind]bool{}
	for _, gvk := range kinds {
		known[gvk.GroupKind()] = true
	}
	for _, gk := range s.owner.Recorded(s.instance).GroupKinds() {
		if known[gk] {
			continue
		}
		gvk, availability, err := r.Kinds.Availability(ctx, gk)
		switch {
		case err != nil:
			o.cannotRead(gk.WithVersion(""), plan.Unreadable{Problem: plan.Problem{Reason: plan.Unavailable, Message: err.Error()}})
			o.lookupErr = err
		case availability != kube.Gone:
			kinds = append(kinds, gvk)
		}
	}
	o.kinds = make(map[schema.GroupKind]bool, len(kinds))
	for _, gvk := range kinds {
		r.observeKind(ctx, s, o, gvk)
	}
	r.observeReferences(s, o)
}

func (r *Reconciler) observeKind(ctx context.Context, s *subject, o *observation, gvk schema.GroupVersionKind) bool {
	o.kinds[gvk.GroupKind()] = true
	children, state := r.readChildren(ctx, s, gvk)
	unreadable := unavailability(gvk, state)
	switch {
	case unreadable != nil:
	case r.Kinds.IsTerminating(gvk.GroupKind()):
		unreadable = waitingForKind(terminatingKind(gvk))
	case s.composer.SchemaUnknown(gvk):
		r.EnqueueDefinition()
		unreadable = waitingForKind(recompiled)
	}
	if unreadable != nil {
		o.cannotRead(gvk, *unreadable)
	}
	for _, child := range children {
		o.addOwned(s.memory, inventory.Node(child), child)
	}
	return len(children) > 0
}

// Objects that only have the label of one are left out.
func (r *Reconciler) readChildren(ctx context.Context, s *subject, gvk schema.GroupVersionKind) ([]*unstructured.Unstructured, watch.State) {
	labelled, state := r.readLabelled(ctx, s, s.lease, gvk)
	return slices.DeleteFunc(slices.Clone(labelled), func(o *unstructured.Unstructured) bool { return !s.owner.Owns(o) }), state
}

func (o *observation) addOwned(m *memory, node string, child *unstructured.Unstructured) {
	m.noteProved(node, child)
	o.facts.Owned[node] = append(o.facts.Owned[node], m.asObserved(child))
}

// It reports whether any of that was new.
func (r *Reconciler) observeNeeds(ctx context.Context, s *subject, o *observation) bool {
	found := false
	for _, need := range o.desired.Needs {
		if _, known := o.facts.External[need]; known {
			continue
		}
		lookup := r.readNeed(ctx, s, need)
		if lookup.Unreadable == nil && s.composer.SchemaUnknown(need.Kind) {
			r.EnqueueDefinition()
			lookup.Unreadable = waitingForKind(recompiled)
		}
		if lookup.Unreadable != nil {
			lookup.Object, lookup.Objects = nil, nil
		}
		o.facts.External[need] = lookup
		found = true
	}
	return found
}

func (r *Reconciler) readNeed(ctx context.Context, s *subject, need plan.Need) plan.Lookup {
	switch {
	case need.Schema:
		r.watchLabelled(ctx, s, s.lease, need.Kind) // a change of the kind triggers another reconcile
		kind, _, err := r.Kinds.Lookup(ctx, need.Kind)
		return plan.Lookup{Schema: kind.Schema, Unreadable: failedRead(plan.Unavailable, err)}
	case need.Scope:
		resource, err := r.Kinds.Resolve(ctx, need.Kind)
		return plan.Lookup{Namespaced: resource.Namespaced, Unreadable: failedRead(plan.Unavailable, err)}
	case need.Live:
		found, err := r.Cluster.Get(ctx, need.Kind, need.Namespace, need.Name)
		if kube.IsObjectNotFound(err, need.Name) {
			return plan.Lookup{}
		}
		return plan.Lookup{Object: found, Unreadable: failedRead(plan.Unavailable, err)}
	case !need.Multiple:
		found, state := s.lease.Object(need.Kind, need.Namespace, need.Name)
		return plan.Lookup{Object: found, Unreadable: unavailability(need.Kind, state)}
	}
	selector, err := labels.Parse(need.Selector)
	if err != nil {
		return plan.Lookup{Unreadable: failedRead(plan.EvaluationFailed, err)}
	}
	found, state := s.lease.Matching(need.Kind, need.Namespace, selector)
	return plan.Lookup{Objects: found, Unreadable: unavailability(need.Kind, state)}
}

// It is nil without an error.
func failedRead(reason plan.Reason, err error) *plan.Unreadable {
	if err == nil {
		return nil
	}
	return &plan.Unreadable{Problem: plan.Problem{Reason: reason, Message: err.Error()}}
}

// It reads the kinds of nodes that the composer didn't name beforehand, and reports whether the instance has objects of
// them already.
func (r *Reconciler) observeFurtherKinds(ctx context.Context, s *subject, o *observation) (found bool) {
	for _, node := range o.desired.Nodes {
		if node.External || node.Kind.Kind == "" || o.kinds[node.Kind.GroupKind()] {
			continue
		}
		found = r.observeKind(ctx, s, o, node.Kind) || found
	}
	return found
}

// It is nil if the kind can be read.
func unavailability(gvk schema.GroupVersionKind, s watch.State) *plan.Unreadable {
	problem := plan.Problem{Reason: plan.Unavailable, Message: s.Message}
	switch {
	case s.Phase == watch.Synced:
		return nil
	case s.Phase == watch.Syncing, s.Phase == watch.Unwatched:
		problem = plan.Problem{Reason: plan.Syncing, Message: "reading " + gvk.Kind + " objects"}
	case s.Reason == watch.WaitingForKind:
		problem = plan.Problem{Reason: plan.WaitingForKind, Message: fmt.Sprintf("no matches for kind %q in version %q; %s", gvk.Kind, gvk.GroupVersion(),
			cmp.Or(s.Remedy, "it continues when the kind is installed"))}
	case s.Reason == watch.LimitExceeded:
		problem.Reason = plan.WatchLimitExceeded
	case s.Reason == watch.Forbidden:
		problem.Reason = plan.Forbidden
	}
	return &plan.Unreadable{Problem: problem, Since: s.Since}
}

const recompiled = "the kind is installed; it continues when the definition has been compiled with it: see the definition's condition GraphAccepted"

func terminatingKind(gvk schema.GroupVersionKind) string {
	return "the CustomResourceDefinition of " + gvk.Kind + " is being deleted, and its objects with it; it continues when the kind is installed again"
}

func waitingForKind(message string) *plan.Unreadable {
	return &plan.Unreadable{Problem: plan.Problem{Reason: plan.WaitingForKind, Message: message}}
}

// awaitFirstLists ends the reconcile, once the nodes that can go on have, while a watch that other
// nodes need is starting. The watch triggers another reconcile when it has synced.
func (r *Reconciler) awaitFirstLists(s *subject, facts plan.Facts) reconcile.Result {
	limit := firstListDelay
	ready, hasStatus := condition.Read(s.instance).Get(v1alpha1.InstanceReady)
	if isOlder := ready.ObservedGeneration > 0 && ready.ObservedGeneration < s.instance.GetGeneration(); hasStatus && !isOlder {
		limit = reportedDelay
	}
	left := facts.InitialReadTimeout(r.Now(), limit)
	if left <= 0 || len(s.errs) > 0 {
		return reconcile.Result{}
	}
	s.lease.Commit()
	return reconcile.RequeueAfter(left)
}

// How long a reconcile waits for first lists before it reports that it waits. A list usually takes milliseconds, and
// each report is a write. An instance with a status of no older generation waits longer: after a restart many thousands
// of objects are listed first, and its status is still valid.
const (
	firstListDelay = 2 * time.Second
	reportedDelay  = time.Minute
)

// restoreWatches watches, before the first reconcile of an instance, the kinds that its inventory
// names. After a restart these are its watches until a reconcile has succeeded: one that fails,
// or that has no composer, must not leave it without any.
func (r *Reconciler) restoreWatches(ctx context.Context, s *subject) {
	if s.memory.watchesRestored {
		return
	}
	s.memory.watchesRestored = true
	lease := r.Lease(watch.Subscriber{Key: s.key})
	defer lease.Commit()
	for _, gk := range s.owner.Recorded(s.instance).GroupKinds() {
		gvk, availability, err := r.Kinds.Availability(ctx, gk)
		switch {
		case err != nil:
			s.memory.watchesRestored = false // the next reconcile tries again
		case availability != kube.Gone:
			r.watchLabelled(ctx, s, lease, gvk)
		}
	}
}

// It reads the beginnings of waits from the status, so time-outs hold across restarts.
func reportedWaits(instance *unstructured.Unstructured) map[plan.WaitKey]time.Time {
	out := map[plan.WaitKey]time.Time{}
	for _, w := range report.ReadWaiting(instance) {
		out[plan.WaitKey{Node: w.Node, On: w.On}] = w.Since.Time
	}
	return out
}
