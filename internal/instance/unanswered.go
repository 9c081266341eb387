package instance

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// findUnansweredWrites lists the children from the API server itself before the instance's finalizer is removed, if the
// outcome of one of its writes is unknown: an object may have been created without an event so far, and no owner
// reference takes it along. The result is final if there is such an object, or if the objects cannot be listed.
func (r *Reconciler) findUnansweredWrites(ctx context.Context, s *subject) reconcile.Result {
	if !s.memory.writeUnanswered {
		return reconcile.Result{}
	}
	found := false
	for _, gk := range s.owner.Recorded(s.instance).GroupKinds() {
		gvk, availability, err := r.Kinds.Availability(ctx, gk)
		if err == nil && availability == kube.Gone {
			continue
		}
		var children []unstructured.Unstructured
		if err == nil {
			children, err = r.listLabelled(ctx, s, gvk)
		}
		if err != nil {
			return reconcile.Fail(fmt.Errorf("list objects after an unanswered write: %w", err))
		}
		for i := range children {
			if !isSigningKey(gvk, children[i].GetName()) && inventory.Node(&children[i]) != "" && s.owner.Owns(&children[i]) {
				r.Children.Record(&children[i], watch.Subscriber{Key: s.key})
				found = true
			}
		}
	}
	if found {
		return reconcile.RequeueAfter(unansweredRetry)
	}
	s.memory.writeUnanswered = false
	return reconcile.Result{}
}

func (r *Reconciler) listLabelled(ctx context.Context, s *subject, gvk schema.GroupVersionKind) (all []unstructured.Unstructured, err error) {
	namespaces := r.childNamespaces(ctx, s, gvk)
	if namespaces == nil {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		found, err := r.Cluster.ListIn(ctx, gvk, namespace, v1alpha1.ApplySetPartOfLabel+"="+s.owner.ID())
		if apierrors.IsForbidden(err) && r.isGoneWithNamespace(ctx, s, namespace) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// unansweredRetry is when a reconcile is repeated that has found objects which the cache lacked.
const unansweredRetry = 100 * time.Millisecond
