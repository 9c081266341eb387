package managed

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Expirer deletes or orphans Bindings of managed resources that are gone.
type Expirer struct {
	// Handles reports whether the managed resources of a kind are this program's; other providers
	// handle theirs.
	Handles  func(schema.GroupKind) bool
	Bindings Bindings
	Cache    Cache
	Watch    func(watch.Subscriber) Lease
	Now      func() time.Time
}

// Reconcile checks whether a binding's managed resource still exists, and deletes the
// binding once nothing depends on it.
func (e *Expirer) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	o, ok := e.Cache.GetCached(BindingKind, "", key.Name)
	if !ok {
		e.Cache.Forget(watch.Subscriber{Key: key})
		return reconcile.Done()
	}
	spec, err := readSpec(o)
	if err != nil {
		return reconcile.Done() // this program has not written it
	}
	if !e.Handles(schema.FromAPIVersionAndKind(spec.Owner.APIVersion, spec.Owner.Kind).GroupKind()) {
		return reconcile.Done()
	}
	gone, err := e.ownerGone(ctx, spec.Owner)
	if err != nil {
		return reconcile.Fail(err)
	}
	if !gone {
		return reconcile.Done() // the managed resource's reconciler enqueues its bindings once it is gone
	}
	if isReservation(o) {
		return e.expireReservation(ctx, key, o, spec)
	}
	step := operation.Expire(*spec, metav1.NewMicroTime(e.Now()))
	switch step.Do {
	case operation.DeleteBinding:
		err = e.deleteBindings(ctx, key, o, spec)
	case operation.UpdateBinding:
		next := o.DeepCopy()
		if err = setSpec(next, step.Binding); err == nil {
			_, err = e.Bindings.Replace(ctx, next, FieldManager)
		}
	default:
	}
	switch {
	case kube.IsStale(err):
		return reconcile.Conflict()
	case err != nil:
		return reconcile.Fail(fmt.Errorf("expire Binding %s: %w", key.Name, err))
	case step.After > 0:
		return reconcile.RequeueAfter(step.After)
	}
	return reconcile.Done()
}

// The reservation of its assigned identity goes first, because it is found by the main one, which stays if it has
// changed: the cache may lack the operation that a former leader has recorded in it.
func (e *Expirer) deleteBindings(ctx context.Context, key object.Key, o *unstructured.Unstructured, spec *binding.BindingSpec) error {
	lease := e.Watch(watch.Subscriber{Key: key})
	defer lease.Discard()
	all, _ := lease.Children(BindingKind, o.GetLabels()[v1alpha1.ApplySetPartOfLabel])
	for _, other := range all {
		if reservation, err := readSpec(other); err != nil || !isReservation(other) || reservation.Owner.UID != spec.Owner.UID {
			continue
		}
		if err := e.Bindings.Delete(ctx, other); err != nil {
			return err
		}
	}
	return e.Bindings.DeleteIfUnchanged(ctx, o)
}

// expireReservation deletes the reservation of an identity once the managed resource and its main binding are gone.
// While the main binding exists, it is watched: its own reconcile deletes the reservation, unless a user deletes the
// main binding before.
func (e *Expirer) expireReservation(ctx context.Context, key object.Key, o *unstructured.Unstructured, spec *binding.BindingSpec) reconcile.Result {
	main := execute.BindingName(&binding.BindingSpec{Owner: spec.Owner})
	lease := e.Watch(watch.Subscriber{Key: key})
	defer lease.Commit()
	lease.Watch(watch.Child(BindingKind, "", main))
	_, err := e.Bindings.Get(ctx, BindingKind, "", main)
	switch {
	case err == nil:
		return reconcile.Done()
	case !kube.IsObjectNotFound(err, main):
		return reconcile.Fail(fmt.Errorf("read Binding %s: %w", main, err))
	}
	if err := e.Bindings.Delete(ctx, o); err != nil {
		return reconcile.Fail(fmt.Errorf("delete Binding %s: %w", o.GetName(), err))
	}
	return reconcile.Done()
}

// A managed resource that the cache lacks is read from the API server. While its kind cannot be read, the answer is an
// error.
func (e *Expirer) ownerGone(ctx context.Context, owner binding.BindingOwner) (bool, error) {
	gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	isOwner := func(o *unstructured.Unstructured) bool { return o != nil && o.GetUID() == owner.UID }
	if cached, ok := e.Cache.GetCached(gvk, owner.Namespace, owner.Name); ok && isOwner(cached) {
		return false, nil
	}
	live, err := e.Bindings.Get(ctx, gvk, owner.Namespace, owner.Name)
	switch {
	case kube.IsObjectNotFound(err, owner.Name):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read %s %s/%s: %w", owner.Kind, owner.Namespace, owner.Name, err)
	}
	return !isOwner(live), nil
}
