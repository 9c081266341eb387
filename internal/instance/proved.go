package instance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// A child that was proved to be the instance's stays one if it loses its marks. After its deletion or release was
// accepted, it may still be in the cache as it was before.
func (m *memory) noteProved(node string, child *unstructured.Unstructured) {
	if m.proved[child.GetUID()].Node != node && m.deletionHistory.Children[child.GetUID()].AcceptedAt.IsZero() {
		m.proved[child.GetUID()] = inventory.ProvedChild{Node: node, Kind: child.GroupVersionKind(), Namespace: child.GetNamespace(), Name: child.GetName()}
	}
}

// It drops the children that are gone, and the ones that no node wants: they may have been released. One that is not
// there while its node waits may only have lost its label: it is found when the node applies its object.
func (m *memory) forgetProved(nodes []plan.Node, steps []plan.Step, there map[types.UID]bool) {
	waits := make(map[string]bool, len(nodes)) // by the nodes that have an object
	for i, node := range nodes {
		if steps[i].Action != plan.Skip && !node.External && !node.Variable {
			id := cmp.Or(node.Collection, node.ID)
			waits[id] = waits[id] || steps[i].Action == plan.Defer
		}
	}
	maps.DeleteFunc(m.proved, func(child types.UID, proved inventory.ProvedChild) bool {
		waits, wanted := waits[proved.Node]
		return !wanted || !there[child] && !waits
	})
}

func uidsOf(lists ...[]*unstructured.Unstructured) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, list := range lists {
		for _, o := range list {
			out[o.GetUID()] = true
		}
	}
	return out
}

// findLostChildren reads, before the instance's finalizer is removed, the children that have left the caches although
// they were not deleted by this program: other writers have deleted them, or removed their label, which is written
// again. The result is final if a label was removed, or if one cannot be read.
func (r *Reconciler) findLostChildren(ctx context.Context, s *subject, remains remnants) reconcile.Result {
	there, found := uidsOf(remains.Children), false
	for _, uid := range slices.Sorted(maps.Keys(s.memory.proved)) {
		child := s.memory.proved[uid]
		if there[uid] || !s.memory.deletionHistory.Children[uid].AcceptedAt.IsZero() {
			continue
		}
		if r.isGone(ctx, child.Kind.GroupKind()) {
			continue
		}
		live, err := r.Cluster.Get(ctx, child.Kind, child.Namespace, child.Name)
		switch {
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
			continue
		case err != nil:
			return reconcile.Fail(fmt.Errorf("read a child that is not in the cache: %w", err))
		case live.GetUID() != uid || !s.owner.OwnsAs(live, child.Node):
			continue
		}
		labels := s.owner.LabelPatch(live, child.Node)
		if labels == nil {
			continue // it is where the instance looks for no children
		}
		_, err = r.write(s, live, func() (*unstructured.Unstructured, error) {
			return r.Cluster.Patch(ctx, live, labels, v1alpha1.ChildManager)
		})
		switch {
		case err == nil, kube.IsStale(err):
			found = true
		case kube.IsTransient(err):
			return reconcile.Fail(fmt.Errorf("label a child again: %w", err))
		default: // it must not be changed, and so not be deleted
			logr.FromContextOrDiscard(ctx).Info("cannot label a child again; it is left behind", "object", object.KeyOf(live), "error", err.Error())
		}
	}
	if found {
		return reconcile.RequeueAfter(unansweredRetry)
	}
	return reconcile.Result{}
}
