package instance

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/watch"
)

// observe gathers facts from caches alone and composes what the instance wants.
// Every watch is declared before the read that it keeps fresh. Composing may name
// further objects to read; it is repeated until it names no new one.
func (r *Reconciler) observe(ctx context.Context, v *visit) error {
	v.facts.Instance = v.instance
	v.facts.Now = r.Now()
	v.facts.Owned = map[string][]*unstructured.Unstructured{}
	v.facts.Kinds = map[schema.GroupVersionKind]plan.Problem{}
	v.syncing = map[schema.GroupVersionKind]time.Time{}
	v.facts.External = map[plan.Need]*unstructured.Unstructured{}
	if v.facts.Problems == nil {
		v.facts.Problems = map[string]plan.Problem{}
	}
	r.observeChildren(v)
	r.observeBlockers(v)
	for {
		desired, err := v.composer.Compose(ctx, v.facts)
		if err != nil {
			return fmt.Errorf("compose: %w", err)
		}
		v.desired = desired
		if !r.observeNeeds(v) {
			return nil
		}
	}
}

// observeChildren reads the instance's own objects of every kind that it writes
// now or wrote before.
func (r *Reconciler) observeChildren(v *visit) {
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
		gvk, gone, err := r.former(gk)
		switch {
		case err != nil:
			v.unread = append(v.unread, gk)
			v.lookup = err
		case !gone:
			kinds = append(kinds, gvk)
		}
	}
	for _, gvk := range kinds {
		state := v.lease.Want(watch.ChildrenOf(gvk, v.owner.ID()))
		problem, blind := problemOf(gvk, state)
		if !blind && v.composer.Untyped(gvk) {
			r.Wake()
			problem, blind = plan.Problem{Reason: plan.WaitingForKind, Message: "the kind has appeared; the definition is being compiled anew"}, true
		}
		if blind {
			v.unread = append(v.unread, gvk.GroupKind())
			v.facts.Kinds[gvk] = problem
			v.syncing[gvk] = state.Since
		}
		for _, child := range r.Hub.Owned(gvk, v.owner.ID()) {
			node := inventory.Node(child)
			v.facts.Owned[node] = append(v.facts.Owned[node], child)
		}
	}
}

// former finds the version in which to watch a kind that an inventory names. A
// kind without a CustomResourceDefinition that no server knows is gone, and its
// objects with it. One that just isn't served has its objects still.
func (r *Reconciler) former(gk schema.GroupKind) (gvk schema.GroupVersionKind, gone bool, err error) {
	gvk, err = r.Kinds.Preferred(gk)
	if !cluster.IsUnavailable(err) {
		return gvk, false, err
	}
	if crd, exists := r.Kinds.CRD(gk); exists && len(crd.Spec.Versions) > 0 {
		return gk.WithVersion(crd.Spec.Versions[0].Name), false, nil
	}
	return gvk, true, nil
}

// observeNeeds reads what the composition asked for and reports whether that
// was anything new.
func (r *Reconciler) observeNeeds(v *visit) bool {
	fresh := false
	for _, need := range v.desired.Needs {
		if _, looked := v.facts.External[need]; looked {
			continue
		}
		state := v.lease.Want(watch.Object(need.Kind, need.Namespace, need.Name))
		if problem, blind := problemOf(need.Kind, state); blind {
			if _, said := v.facts.Kinds[need.Kind]; !said {
				v.facts.Kinds[need.Kind] = problem
				v.syncing[need.Kind] = state.Since
				fresh = true
			}
			continue
		}
		found, _ := r.Hub.Get(need.Kind, need.Namespace, need.Name)
		v.facts.External[need] = found
		fresh = true
	}
	return fresh
}

// shortly is how long a pass waits for first reads before it reports that it is
// waiting for them: a list usually takes milliseconds, and saying so would cost
// a write.
const shortly = 2 * time.Second

// patience ends the pass while a watch that it needs is only just starting. The
// watch wakes the instance when it has caught up.
func (v *visit) patience(now time.Time) outcome.Outcome {
	for gvk, problem := range v.facts.Kinds {
		if problem.Reason != plan.Syncing {
			continue
		}
		if left := shortly - now.Sub(v.syncing[gvk]); left > 0 {
			v.lease.Commit()
			return outcome.Wait(left)
		}
	}
	return outcome.Outcome{}
}

// problemOf says why a kind can't be read now; false when it can.
func problemOf(gvk schema.GroupVersionKind, s watch.State) (plan.Problem, bool) {
	problem := plan.Problem{Reason: plan.Unavailable, Message: s.Message}
	switch {
	case s.Phase == watch.Synced:
		return plan.Problem{}, false
	case s.Phase == watch.Syncing, s.Phase == watch.Unwatched:
		problem = plan.Problem{Reason: plan.Syncing, Message: "reading " + gvk.Kind + " objects"}
	case s.Reason == watch.WaitingForKind:
		problem = plan.Problem{Reason: plan.WaitingForKind, Message: fmt.Sprintf("no server knows kind %s of %s; it continues when the kind is installed", gvk.Kind, gvk.GroupVersion())}
	case s.Reason == watch.Forbidden:
		problem.Reason = plan.Forbidden
	}
	return problem, true
}

// waitsSince reads from an instance's status since when it has been waiting for
// what, so that limits hold across restarts.
func waitsSince(instance *unstructured.Unstructured) map[plan.WaitKey]time.Time {
	raw, _, _ := unstructured.NestedFieldNoCopy(instance.Object, "status", graph.WaitingField)
	list, _ := raw.([]any)
	out := map[plan.WaitKey]time.Time{}
	for _, item := range list {
		m, _ := item.(map[string]any)
		node, _ := m["node"].(string)
		on, _ := m["on"].(string)
		text, _ := m["since"].(string)
		if since, err := time.Parse(sinceFormat, text); err == nil && node != "" {
			out[plan.WaitKey{Node: node, On: on}] = since
		}
	}
	return out
}
