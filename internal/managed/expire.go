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
	"github.com/espalier-dev/espalier/internal/managed/carry"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
)

// Expirer sees to Bindings whose managed resources have gone, of the kinds that this
// program serves: others' are others' to see to.
type Expirer struct {
	Kinds    map[schema.GroupKind]struct{}
	Bindings Bindings
	Cache    Cache
	Watch    func(watch.Subscriber) Lease
	Now      func() time.Time
}

// Reconcile looks whether a binding's managed resource is there, and keeps the
// binding no longer than it has to.
func (e *Expirer) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	o, ok := e.Cache.Served(Kind, "", key.Name)
	if !ok {
		e.Cache.Forget(watch.Subscriber{Key: key})
		return reconcile.Done()
	}
	spec, err := specOf(o)
	if err != nil {
		return reconcile.Done() // somebody else has written it, and nothing follows
	}
	if _, ours := e.Kinds[schema.FromAPIVersionAndKind(spec.Owner.APIVersion, spec.Owner.Kind).GroupKind()]; !ours {
		return reconcile.Done()
	}
	gone, err := e.ownerGone(ctx, spec.Owner)
	if err != nil {
		return reconcile.Fail(err)
	}
	if !gone {
		return reconcile.Done() // its end wakes it
	}
	if isReservation(o) {
		return e.expireReservation(ctx, key, o, spec)
	}
	step := operation.Expire(*spec, metav1.NewMicroTime(e.Now()))
	switch step.Do {
	case operation.Forget:
		err = e.forget(ctx, key, o, spec)
	case operation.Record:
		next := o.DeepCopy()
		if err = setSpec(next, step.Binding); err == nil {
			_, err = e.Bindings.Replace(ctx, next, Manager)
		}
	default:
	}
	switch {
	case kube.IsGone(err):
		return reconcile.Conflict()
	case err != nil:
		return reconcile.Fail(fmt.Errorf("see to Binding %s: %w", key.Name, err))
	case step.After > 0:
		return reconcile.RequeueAfter(step.After)
	}
	return reconcile.Done()
}

// forget deletes what is kept of a managed resource: first what keeps its assigned
// identity, which nobody would look for without the other.
func (e *Expirer) forget(ctx context.Context, key object.Key, o *unstructured.Unstructured, spec *binding.BindingSpec) error {
	lease := e.Watch(watch.Subscriber{Key: key})
	defer lease.Discard()
	all, _ := lease.Children(Kind, o.GetLabels()[v1alpha1.ApplySetPartOfLabel])
	for _, other := range all {
		if kept, err := specOf(other); err != nil || !isReservation(other) || kept.Owner.UID != spec.Owner.UID {
			continue
		}
		if err := e.Bindings.Delete(ctx, other); err != nil {
			return err
		}
	}
	return e.Bindings.Delete(ctx, o)
}

// expireReservation deletes what keeps an identity whose managed resource and whose
// binding have gone. While there is a binding that sees to it, unless somebody deletes
// it, which is waited for: nothing else would tell of that.
func (e *Expirer) expireReservation(ctx context.Context, key object.Key, o *unstructured.Unstructured, spec *binding.BindingSpec) reconcile.Result {
	main := carry.BindingName(&binding.BindingSpec{Owner: spec.Owner})
	lease := e.Watch(watch.Subscriber{Key: key})
	defer lease.Commit()
	lease.Want(watch.Child(Kind, "", main))
	_, err := e.Bindings.Get(ctx, Kind, "", main)
	switch {
	case err == nil:
		return reconcile.Done()
	case !kube.IsObjectNotFound(err, main):
		return reconcile.Fail(fmt.Errorf("look for Binding %s: %w", main, err))
	}
	if err := e.Bindings.Delete(ctx, o); err != nil {
		return reconcile.Fail(fmt.Errorf("delete Binding %s: %w", o.GetName(), err))
	}
	return reconcile.Done()
}

// ownerGone says whether a managed resource isn't there any more. What the cache
// has is there; what it doesn't have is looked for. While its kind can't be read
// nothing follows.
func (e *Expirer) ownerGone(ctx context.Context, owner binding.BindingOwner) (bool, error) {
	gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
	isOwner := func(o *unstructured.Unstructured) bool { return o != nil && o.GetUID() == owner.UID }
	if cached, ok := e.Cache.Served(gvk, owner.Namespace, owner.Name); ok && isOwner(cached) {
		return false, nil
	}
	live, err := e.Bindings.Get(ctx, gvk, owner.Namespace, owner.Name)
	switch {
	case kube.IsObjectNotFound(err, owner.Name):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look for %s %s/%s: %w", owner.Kind, owner.Namespace, owner.Name, err)
	}
	return !isOwner(live), nil
}
