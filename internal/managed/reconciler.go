// Package managed reconciles managed resources with their external resources. Package
// operation decides what to do, one step at a time. This package carries the steps out: on
// the external API through a provider's client, and on the API server, where a Binding
// records each operation before its call is made.
package managed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/internal/managed/port"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Kind is the kind of Bindings.
var Kind = binding.GroupVersion.WithKind(binding.BindingKind)

// Manager is the field manager of what the runtime writes.
const Manager = "espalier.dev/managed"

// Reconciler reconciles the managed resources of one kind.
type Reconciler struct {
	Port      port.Kind
	Bindings  Bindings
	Resources Resources
	Secrets   Secrets
	Cache     Cache
	// Watch opens a lease on what a reconcile reads.
	Watch  func(watch.Subscriber) Lease
	Events telemetry.Recorder
	Now    func() time.Time
	// LeaderUntil is until when this process is certain to be the only leader; zero without
	// leader election. A call that changes something is canceled then.
	LeaderUntil func() time.Time
	// Random returns a fresh random text of ASCII letters and digits.
	Random func() string
	// Installation names this control plane on marks.
	Installation string
	// PollInterval is how often an external resource is observed without an event.
	PollInterval time.Duration
	// Enqueue requests a reconcile of an object.
	Enqueue func(object.Key)
	// Usages knows which objects are in use; nil where usages are not served.
	Usages Usages
}

// reconcileState is the state of one reconcile of a managed resource.
type reconcileState struct {
	key     object.Key
	object  *unstructured.Unstructured
	binding *unstructured.Unstructured // nil if there is none
	lease   Lease
	session port.Session
	state   operation.State
}

// maxSteps bounds the steps of a reconcile. A creation takes about twenty.
const maxSteps = 64

// Reconcile reads what is stored, then carries out one step after the other until there is
// nothing more to do for now, and writes the status. Each step is decided on the results of
// the steps before it.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	s, out := r.load(ctx, key)
	if out.IsFinal() {
		return out
	}
	defer s.lease.Commit()
	defer s.close()
	if out := r.blockIfInUse(ctx, s); out.IsFinal() {
		return out
	}
	for range maxSteps {
		s.update(r)
		step := operation.Next(s.state)
		if step.Do == operation.Finish {
			return r.report(ctx, s, step)
		}
		if out := r.execute(ctx, s, step); out.IsFinal() {
			return out
		}
	}
	return reconcile.Fail(fmt.Errorf("%s is not done after %d steps", key, maxSteps))
}

// load reads the managed resource and its binding, both from caches.
func (r *Reconciler) load(ctx context.Context, key object.Key) (*reconcileState, reconcile.Result) {
	cached, ok := r.Cache.GetCached(r.Port.GVK, key.Namespace, key.Name)
	if !ok {
		r.enqueueBindings(key)
		return nil, reconcile.Done()
	}
	s := &reconcileState{key: key, object: cached, lease: r.Watch(watch.Subscriber{Key: key})}
	bindings, state := s.lease.Children(Kind, ownerID(cached))
	if state.Phase != watch.Synced {
		s.lease.Commit()
		return nil, reconcile.Done() // no call before the open operation is known; the watch enqueues the object
	}
	for _, b := range bindings {
		spec, err := readSpec(b)
		switch {
		case err != nil:
		case spec.Owner.UID != cached.GetUID():
			r.Enqueue(object.KeyOf(b)) // a former incarnation's, which nothing else would enqueue
		case !isReservation(b):
			s.binding = b
		}
	}
	if own := execute.ReadResource(cached, r.PollInterval); own.Paused || own.Policies.Paused() {
		return s, reconcile.Result{} // neither references nor a client are needed
	}
	if !s.isSecretKnown() {
		s.lease.Commit()
		return nil, reconcile.Done() // the watch enqueues the object
	}
	if err := r.connect(ctx, s); err != nil {
		s.close() // it may have connected
		s.lease.Commit()
		if kube.IsStale(err) || errors.Is(err, port.ErrNotSynced) {
			return nil, reconcile.Done()
		}
		return nil, r.report(ctx, s, operation.Failure(err))
	}
	s.state.ReservationMissing = s.state.Caps.Naming == external.ProviderAssigned && isReservationMissing(s.binding, bindings)
	return s, reconcile.Result{}
}

// close ends the session with the provider's client, if there is one.
func (s *reconcileState) close() {
	if s.session != nil {
		_ = s.session.Close() // best effort: nothing depends on it
	}
}

// isReservationMissing reports whether a binding names an identity that none of the managed
// resource's bindings reserves, since that one was deleted.
func isReservationMissing(b *unstructured.Unstructured, own []*unstructured.Unstructured) bool {
	if b == nil {
		return false
	}
	spec, err := readSpec(b)
	if err != nil || spec.Ref == "" || spec.Shared {
		return false
	}
	name, _ := execute.Reservation(spec, external.Ref(spec.Ref))
	return !slices.ContainsFunc(own, func(o *unstructured.Unstructured) bool { return o.GetName() == name })
}

// connect resolves the references of the managed resource, and connects a client for it.
func (r *Reconciler) connect(ctx context.Context, s *reconcileState) (err error) {
	s.state = operation.State{Caps: r.Port.Caps(), MarkOwner: r.markOwner(s.object), Requests: map[external.Verb]external.Request{}}
	if err := r.resolveReferences(ctx, s); err != nil {
		return err
	}
	if s.session, err = r.Port.Connect(ctx, s, s.object); err != nil {
		return err
	}
	s.state.KeyFrom = s.object.GetAnnotations()[resource.ExternalNameAnnotation]
	s.state.Key, err = s.session.Identify()
	return err
}

// enqueueBindings enqueues the bindings of a managed resource that is gone.
func (r *Reconciler) enqueueBindings(key object.Key) {
	lease := r.Watch(watch.Subscriber{Key: key})
	left, _ := lease.Children(Kind, inventory.ApplySetID(key))
	lease.Discard()
	r.Cache.Forget(watch.Subscriber{Key: key})
	if r.Usages != nil {
		r.Usages.Forget(key)
	}
	for _, b := range left {
		r.Enqueue(object.KeyOf(b))
	}
}

// update sets the fields of the state that follow from the stored objects.
func (s *reconcileState) update(r *Reconciler) {
	s.state.Resource = execute.ReadResource(s.object, r.PollInterval)
	s.state.Now, s.state.LeaderUntil, s.state.Random = r.Now(), r.LeaderUntil(), r.Random()
	s.state.Binding = nil
	if s.binding != nil {
		s.state.Binding, _ = readSpec(s.binding)
	}
}

// markOwner identifies a managed resource on marks.
func (r *Reconciler) markOwner(o *unstructured.Unstructured) string {
	gk := o.GroupVersionKind().GroupKind()
	return fmt.Sprintf("%s/%s/%s@%s", schema.GroupKind{Group: gk.Group, Kind: gk.Kind}, o.GetNamespace(), o.GetName(), r.Installation)
}
