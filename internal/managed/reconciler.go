// Package managed keeps external resources as their managed resources want them.
// What to do is package operation's to say, one step at a time; here the steps are
// carried out: on the external API through a provider's client, and on the API
// server, where a Binding remembers what was asked.
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
	"github.com/espalier-dev/espalier/internal/managed/carry"
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

// Reconciler serves the managed resources of one kind.
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
	// Until is until when no other process can be at the same work; zero for as
	// long as this one likes. No call that changes something outlasts it.
	Until func() time.Time
	// Random returns a fresh random text of ASCII letters and digits.
	Random func() string
	// Installation names this control plane on marks.
	Installation string
	// Poll is how often an external resource is looked at that nothing happens to.
	Poll time.Duration
	// Wake asks for a reconcile of an object.
	Wake func(object.Key)
	// Usages tells which objects are in use; nil if nobody knows of any.
	Usages Usages
}

// reconcileState is what one reconcile of a managed resource works on.
type reconcileState struct {
	key     object.Key
	object  *unstructured.Unstructured
	binding *unstructured.Unstructured // nil if there is none
	lease   Lease
	session port.Session
	state   operation.State
}

// mostSteps bounds a reconcile. A life takes some twenty steps from nothing to rest.
const mostSteps = 64

// Reconcile gathers what is stored, then carries out one step after the other, each
// decided on what the ones before it have shown, until there is nothing more to do for
// now; and reports.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	s, out := r.load(ctx, key)
	if out.IsFinal() {
		return out
	}
	defer s.lease.Commit()
	defer func() {
		if s.session != nil {
			_ = s.session.Close() // best effort: nothing rests on it
		}
	}()
	if out := r.block(ctx, s); out.IsFinal() {
		return out
	}
	for range mostSteps {
		s.update(r)
		step := operation.Next(s.state)
		if step.Do == operation.Rest {
			return r.report(ctx, s, step)
		}
		if out := r.carryOut(ctx, s, step); out.IsFinal() {
			return out
		}
	}
	return reconcile.Fail(fmt.Errorf("%s does not come to rest", key))
}

// load reads the managed resource and its binding, both from caches.
func (r *Reconciler) load(ctx context.Context, key object.Key) (*reconcileState, reconcile.Result) {
	cached, ok := r.Cache.Served(r.Port.GVK, key.Namespace, key.Name)
	if !ok {
		r.enqueueBindings(key)
		return nil, reconcile.Done()
	}
	s := &reconcileState{key: key, object: cached, lease: r.Watch(watch.Subscriber{Key: key})}
	bindings, state := s.lease.Children(Kind, ownerID(cached))
	if state.Phase != watch.Synced {
		s.lease.Commit()
		return nil, reconcile.Done() // nothing is asked before what was asked is known; the watch wakes it
	}
	for _, b := range bindings {
		spec, err := specOf(b)
		switch {
		case err != nil:
		case spec.Owner.UID != cached.GetUID():
			r.Wake(object.KeyOf(b)) // of one that had the name before, and that nobody else would see to
		case !isReservation(b):
			s.binding = b
		}
	}
	if own := carry.ResourceOf(cached, r.Poll); own.Paused || own.Policies.Paused() {
		return s, reconcile.Result{} // nothing is looked up, and nobody is connected to
	}
	if !s.watchesSecret() {
		s.lease.Commit()
		return nil, reconcile.Done() // as with bindings
	}
	if err := r.connect(ctx, s); err != nil {
		s.lease.Commit()
		if kube.IsGone(err) || errors.Is(err, port.ErrNotYet) {
			return nil, reconcile.Done()
		}
		return nil, r.report(ctx, s, operation.Fails(err))
	}
	s.state.Unreserved = s.state.Caps.Naming == external.ProviderAssigned && unreserved(s.binding, bindings)
	return s, reconcile.Result{}
}

// unreserved reports whether a binding names an identity that none of the bindings of its
// managed resource reserves, since somebody has deleted that one.
func unreserved(b *unstructured.Unstructured, own []*unstructured.Unstructured) bool {
	if b == nil {
		return false
	}
	spec, err := specOf(b)
	if err != nil || spec.Ref == "" || spec.Shared {
		return false
	}
	name, _ := carry.Reservation(spec, external.Ref(spec.Ref))
	return !slices.ContainsFunc(own, func(o *unstructured.Unstructured) bool { return o.GetName() == name })
}

// connect resolves what the managed resource refers to, and connects a client for
// it.
func (r *Reconciler) connect(ctx context.Context, s *reconcileState) (err error) {
	s.state = operation.State{Caps: r.Port.Caps(), MarkOwner: r.markOwner(s.object), Requests: map[external.Verb]external.Request{}}
	if err := r.resolve(ctx, s); err != nil {
		return err
	}
	if s.session, err = r.Port.Connect(ctx, s, s.object); err != nil {
		return err
	}
	s.state.KeyFrom = s.object.GetAnnotations()[resource.ExternalNameAnnotation]
	s.state.Key, err = s.session.Identify()
	return err
}

// enqueueBindings enqueues what is left of a managed resource that has gone.
func (r *Reconciler) enqueueBindings(key object.Key) {
	lease := r.Watch(watch.Subscriber{Key: key})
	left, _ := lease.Children(Kind, inventory.ApplySetID(key))
	lease.Discard()
	r.Cache.Forget(watch.Subscriber{Key: key})
	if r.Usages != nil {
		r.Usages.Forget(key)
	}
	for _, b := range left {
		r.Wake(object.KeyOf(b))
	}
}

// update brings the state up to what is stored.
func (s *reconcileState) update(r *Reconciler) {
	s.state.Resource = carry.ResourceOf(s.object, r.Poll)
	s.state.Now, s.state.Until, s.state.Random = r.Now(), r.Until(), r.Random()
	s.state.Binding = nil
	if s.binding != nil {
		s.state.Binding, _ = specOf(s.binding)
	}
}

// markOwner names a managed resource on marks.
func (r *Reconciler) markOwner(o *unstructured.Unstructured) string {
	gk := o.GroupVersionKind().GroupKind()
	return fmt.Sprintf("%s/%s/%s@%s", schema.GroupKind{Group: gk.Group, Kind: gk.Kind}, o.GetNamespace(), o.GetName(), r.Installation)
}
