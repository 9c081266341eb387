package instance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/watch"
)

// takeApart removes a deleted instance's children in reverse order, then lets
// the instance go. It needs what the instance recorded and what the children
// carry, and nothing else: no definition, no graph, no expressions. Events of
// the children bring the next pass; nothing is polled.
func (r *Reconciler) takeApart(ctx context.Context, v *visit) outcome.Outcome {
	if !slices.ContainsFunc(v.instance.GetFinalizers(), inventory.IsFinalizer) {
		r.Hub.Forget(watch.Subscriber{Key: v.key})
		return outcome.Done()
	}
	v.lease = r.Hub.Begin(watch.Subscriber{Key: v.key})
	left := r.remaining(ctx, v)
	v.lease.Commit() // whatever comes of this pass, what is left stays watched
	if out := r.reportDeleting(ctx, v, left.unread); out.Settled() {
		if out.Err == nil || cluster.Passes(out.Err) {
			return out
		}
		// A status that the server refuses for good must not keep the instance.
		logr.FromContextOrDiscard(ctx).Error(out.Err, "the status can't tell of the deletion, which goes on")
	}
	if !left.known {
		return failed(left.failures) // the kinds' watches wake the instance when they can tell
	}
	removal := plan.Teardown(left.children)
	if removal.Done() {
		return r.letGo(ctx, v)
	}
	return failed(r.remove(ctx, v, removal))
}

func failed(errs []error) outcome.Outcome {
	if err := errors.Join(errs...); err != nil {
		return outcome.Fail(err)
	}
	return outcome.Done()
}

// remaining is what is known of the children that an instance has left.
type remaining struct {
	children []*unstructured.Unstructured
	// known says that these are all.
	known bool
	// unread says, sorted, which kinds can't be read now and why.
	unread   []string
	failures []error
}

// remaining reads the instance's children from caches. A kind that is gone has
// no objects.
func (r *Reconciler) remaining(ctx context.Context, v *visit) remaining {
	left := remaining{known: true}
	for _, gk := range inventory.Read(v.instance).GroupKinds() {
		gvk, standing, err := r.Kinds.Standing(ctx, gk)
		if err != nil {
			left.known = false
			left.failures = append(left.failures, err)
		}
		if err != nil || standing == cluster.Gone {
			continue
		}
		children, state := v.lease.Children(gvk, v.owner.ID())
		if _, exists := r.Kinds.CRD(gk); !exists && state.Reason == watch.WaitingForKind {
			continue // what was known of it is old: it is gone
		}
		if blind := blindness(gvk, state); blind != nil {
			left.known = false
			if blind.Reason != plan.Syncing {
				left.unread = append(left.unread, fmt.Sprintf("%s: %s", blind.Reason, blind.Message))
			}
		}
		for _, child := range children {
			if inventory.Node(child) != "" {
				left.children = append(left.children, child)
			}
		}
	}
	return left
}

// reportDeleting writes that the instance is being deleted, before any child is
// touched, and what holds that up.
func (r *Reconciler) reportDeleting(ctx context.Context, v *visit, unread []string) outcome.Outcome {
	status, _, _ := unstructured.NestedMap(v.instance.Object, "status")
	if status == nil {
		status = map[string]any{}
	}
	message := "its resources are being deleted, in reverse order"
	if len(unread) > 0 {
		message += "; what is left can't be told: " + strings.Join(unread, "; ")
	}
	generation := v.instance.GetGeneration()
	conditions := condition.Read(v.instance)
	for _, kind := range []string{v1alpha1.InstanceResourcesReady, v1alpha1.InstanceReady} {
		conditions = conditions.Mark(v1alpha1.Condition{
			Type: kind, Status: condition.False, Reason: "Deleting", Message: message, ObservedGeneration: generation,
		}, r.Now())
	}
	conditions = conditions.Drop(v1alpha1.InstanceStalled)
	status[report.StateField] = string(v1alpha1.InstanceDeleting)
	status[report.ConditionsField] = conditions.Unstructured()
	delete(status, report.WaitingField)
	return r.writeStatus(ctx, v, status)
}

// letGo removes the finalizers that kept the instance: the definition's, in
// whatever incarnation.
func (r *Reconciler) letGo(ctx context.Context, v *visit) outcome.Outcome {
	kept := slices.DeleteFunc(slices.Clone(v.instance.GetFinalizers()), inventory.IsFinalizer)
	answer, err := r.Cluster.SetFinalizers(ctx, v.instance, kept, v1alpha1.InstanceManager)
	if cluster.IsGone(err) {
		return outcome.Done()
	}
	if err != nil {
		return outcome.Fail(fmt.Errorf("remove the finalizer: %w", err))
	}
	if len(kept) > 0 {
		r.Hub.Record(answer, watch.Subscriber{Key: v.key})
		return outcome.Done()
	}
	r.Hub.RecordGone(r.Kind, v.key.Namespace, v.key.Name, string(v.instance.GetUID()), watch.Subscriber{Key: v.key})
	r.Hub.Forget(watch.Subscriber{Key: v.key})
	r.memories.forget(v.key)
	return outcome.Done()
}
