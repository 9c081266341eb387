// Package managed reconciles managed resources with their external resources. Package
// operation decides what to do, one step at a time. This package carries the steps out: on
// the external API through a provider's client, and on the API server, where a Binding
// records each operation before its call is made.
// See docs/design/0007-managed-resources.md.
package managed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/port"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// BindingKind is the kind of Bindings.
var BindingKind = binding.GroupVersion.WithKind(binding.BindingKind)

// FieldManager is the field manager of all writes of this package.
const FieldManager = "espalier.dev/managed"

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
	// LeaderUntil is how long this process is certain to be the only leader; zero without leader election. A call that
	// changes something is canceled then.
	LeaderUntil func() time.Time
	// Leader returns this process and the epoch of its leadership; the holder is empty without
	// leader election.
	Leader func() (holder string, epoch int64)
	// Random returns a fresh random text of ASCII letters and digits.
	Random func() string
	// Installation identifies this control plane on marks.
	Installation string
	// PollInterval is how often an external resource is observed without an event.
	PollInterval time.Duration
	// Enqueue requests a reconcile of an object.
	Enqueue func(object.Key)
	// Usages knows which objects are in use; nil where usages are not served.
	Usages Usages
}

type reconcileState struct {
	key    object.Key
	object *unstructured.Unstructured
	// bindings are all Bindings of this managed resource and of former incarnations; binding is
	// this one's, without the reservation of its identity, and nil if there is none.
	bindings []*unstructured.Unstructured
	binding  *unstructured.Unstructured
	lease    Lease
	// secret is the connection secret as it was before the client could read it, or as this reconcile has written it; nil
	// if the cache had none.
	secret *unstructured.Unstructured
	// listValues are resolved references that are not stored.
	listValues []fieldValue
	session    port.Session
	state      operation.State
}

// maxSteps bounds the steps of a reconcile. A creation takes about twenty.
const maxSteps = 64

// Reconcile reads what is stored and connects the provider's client. Then it carries out one
// step after the other until there is nothing more to do for now, and writes the status. Each
// step is decided on the results of the steps before it.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	s, out := r.load(key)
	if out.IsFinal() {
		return out
	}
	defer s.lease.Commit()
	defer s.close()
	if out := r.connect(ctx, s); out.IsFinal() {
		return out
	}
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

// Both come from caches.
func (r *Reconciler) load(key object.Key) (*reconcileState, reconcile.Result) {
	cached, ok := r.Cache.GetCached(r.Port.GVK, key.Namespace, key.Name)
	if !ok {
		r.enqueueBindings(key)
		r.forget(key)
		return nil, reconcile.Done()
	}
	s := &reconcileState{key: key, object: cached, lease: r.Watch(watch.Subscriber{Key: key})}
	bindings, state := s.lease.Children(BindingKind, ownerID(cached))
	if state.Phase != watch.Synced {
		s.lease.Commit()
		return nil, reconcile.Done() // no call before the open operation is known; the watch enqueues the object
	}
	s.bindings = bindings
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
	return s, reconcile.Result{}
}

// connect connects the provider's client, unless the managed resource is paused. Before that
// it resolves references, which writes the resolved values into spec.forProvider.
func (r *Reconciler) connect(ctx context.Context, s *reconcileState) reconcile.Result {
	if own := execute.ReadResource(s.object, max(r.PollInterval, r.Port.PollInterval)); own.Paused || own.Policies.Paused() {
		return reconcile.Result{}
	}
	if !s.readSecret() {
		return reconcile.Done() // the watch enqueues the object
	}
	s.state = operation.State{Caps: r.Port.Caps(), MarkOwner: r.markOwner(s.object), Requests: map[external.Verb]external.Request{}}
	err := r.resolveReferences(ctx, s)
	if err == nil {
		err = r.openSession(ctx, s)
	}
	var waiting waitingError
	switch {
	case kube.IsStale(err) || errors.Is(err, port.ErrNotSynced):
		return reconcile.Done()
	case errors.As(err, &waiting):
		return r.report(ctx, s, operation.Wait(err.Error()))
	case err != nil:
		return r.report(ctx, s, operation.Failure(err))
	}
	s.state.ReservationMissing = s.state.Caps.Naming == external.ProviderAssigned && isReservationMissing(s.binding, s.bindings)
	return reconcile.Result{}
}

func (r *Reconciler) openSession(ctx context.Context, s *reconcileState) (err error) {
	if s.session, err = r.connectClient(ctx, s); err != nil {
		return err
	}
	s.state.WriteOnlyDigest = s.session.WriteOnlyDigest()
	s.state.DesiredKeyAnnotation = s.object.GetAnnotations()[resource.ExternalNameAnnotation]
	s.state.DesiredKey, err = s.session.Identify()
	return err
}

func (r *Reconciler) connectClient(ctx context.Context, s *reconcileState) (port.Session, error) {
	defer queue.Calling(ctx)() // some clients log in
	return r.Port.Connect(ctx, s, s.withListValues())
}

func (s *reconcileState) close() {
	if s.session != nil {
		_ = s.session.Close() // best effort: nothing depends on it
	}
}

// The binding names an identity that none of the managed resource's bindings reserves: the one that did was deleted.
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

func (r *Reconciler) enqueueBindings(key object.Key) {
	lease := r.Watch(watch.Subscriber{Key: key})
	left, _ := lease.Children(BindingKind, inventory.ApplySetID(key))
	lease.Discard()
	for _, b := range left {
		r.Enqueue(object.KeyOf(b))
	}
}

// Disown is cluster.Disowner's.
func (r *Reconciler) Disown(key object.Key) { r.forget(key) }

func (r *Reconciler) forget(key object.Key) {
	r.Cache.Forget(watch.Subscriber{Key: key})
	if r.Usages != nil {
		r.Usages.Forget(key)
	}
}

func (s *reconcileState) update(r *Reconciler) {
	s.state.Resource = execute.ReadResource(s.object, max(r.PollInterval, r.Port.PollInterval))
	if !execute.HasPollInterval(s.object) {
		s.state.Resource.MaxPollInterval = r.Port.MaxPollInterval
	}
	s.state.Now, s.state.LeaderUntil, s.state.Random = r.Now(), r.LeaderUntil(), r.Random()
	s.state.Leader.Holder, s.state.Leader.Epoch = r.Leader()
	s.state.Binding = nil
	if s.binding != nil {
		s.state.Binding, _ = readSpec(s.binding)
	}
}

func (r *Reconciler) markOwner(o *unstructured.Unstructured) string {
	return operation.MarkOwner(o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName(), r.Installation)
}
