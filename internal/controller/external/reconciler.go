// Package external keeps external resources as their managed resources want them.
// What to do is package operation's to say, one step at a time; here the steps are
// carried out: on the external API through a provider's client, and on the API
// server, where a Binding remembers what was asked.
package external

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/controller/external/carry"
	"github.com/espalier-dev/espalier/internal/controller/external/port"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/operation"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Kind is the kind of Bindings.
var Kind = binding.GroupVersion.WithKind(binding.BindingKind)

// Manager is the field manager of what the runtime writes.
const Manager = "espalier.dev/managed"

// Reconciler serves the managed resources of one kind.
type Reconciler struct {
	Port    port.Kind
	Cluster *cluster.Client
	Hub     *watch.Hub
	Events  telemetry.Recorder
	Now     func() time.Time
	// Until is until when no other process can be at the same work; zero for as
	// long as this one likes. No call that changes something outlasts it.
	Until func() time.Time
	// Random returns a fresh random text of ASCII letters and digits.
	Random func() string
	// Installation names this control plane on marks.
	Installation string
	// Poll is how often an external resource is looked at that nothing happens to.
	Poll time.Duration
	// Wake asks for a pass over an object.
	Wake func(object.Key)
	// Usages tells which objects are in use; nil if nobody knows of any.
	Usages Usages
}

// visit is one pass over one managed resource.
type visit struct {
	key     object.Key
	object  *unstructured.Unstructured
	binding *unstructured.Unstructured // nil if there is none
	lease   *watch.Lease
	session port.Session
	state   operation.State
}

// mostSteps bounds a pass. A life takes some twenty steps from nothing to rest.
const mostSteps = 64

// Reconcile tells one pass: gather what is stored, then carry out one step after
// the other, each decided on what the ones before it have shown, until there is
// nothing more to do for now; and tell.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) outcome.Outcome {
	v, out := r.begin(ctx, key)
	if out.Settled() {
		return out
	}
	defer v.lease.Commit()
	defer func() {
		if v.session != nil {
			_ = v.session.Close() // best effort: nothing rests on it
		}
	}()
	if out := r.keep(ctx, v); out.Settled() {
		return out
	}
	for range mostSteps {
		v.remember(r)
		step := operation.Next(v.state)
		if step.Do == operation.Rest {
			return r.report(ctx, v, step)
		}
		if out := r.carryOut(ctx, v, step); out.Settled() {
			return out
		}
	}
	return outcome.Fail(fmt.Errorf("%s doesn't come to rest", key))
}

// begin loads the managed resource and its binding, both from caches.
func (r *Reconciler) begin(ctx context.Context, key object.Key) (*visit, outcome.Outcome) {
	cached, ok := r.Hub.Served(r.Port.GVK, key.Namespace, key.Name)
	if !ok {
		r.bury(key)
		return nil, outcome.Done()
	}
	v := &visit{key: key, object: cached, lease: r.Hub.Begin(watch.Subscriber{Key: key})}
	bindings, state := v.lease.Children(Kind, ownerID(cached))
	if state.Phase != watch.Synced {
		v.lease.Commit()
		return nil, outcome.Done() // nothing is asked before what was asked is known; the watch wakes it
	}
	for _, b := range bindings {
		spec, err := specOf(b)
		switch {
		case err != nil:
		case spec.Owner.UID != cached.GetUID():
			r.Wake(object.KeyOf(b)) // of one that had the name before, and that nobody else would see to
		case !isReservation(b):
			v.binding = b
		}
	}
	if own := carry.ResourceOf(cached, r.Poll); own.Paused || own.Policies.Paused() {
		return v, outcome.Outcome{} // nothing is looked up, and nobody is connected to
	}
	if !v.watchesSecret() {
		v.lease.Commit()
		return nil, outcome.Done() // as with bindings
	}
	if err := r.connect(ctx, v); err != nil {
		v.lease.Commit()
		if cluster.IsGone(err) || errors.Is(err, port.ErrNotYet) {
			return nil, outcome.Done()
		}
		return nil, r.report(ctx, v, operation.Fails(err))
	}
	v.state.Unreserved = v.state.Caps.Naming == external.ProviderAssigned && unreserved(v.binding, bindings)
	return v, outcome.Outcome{}
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
func (r *Reconciler) connect(ctx context.Context, v *visit) (err error) {
	v.state = operation.State{Caps: r.Port.Caps(), MarkOwner: r.markOwner(v.object), Requests: map[external.Verb]external.Request{}}
	if err := r.resolve(ctx, v); err != nil {
		return err
	}
	if v.session, err = r.Port.Connect(ctx, v, v.object); err != nil {
		return err
	}
	v.state.KeyFrom = v.object.GetAnnotations()[resource.ExternalNameAnnotation]
	v.state.Key, err = v.session.Identify()
	return err
}

// bury lets what is left of a managed resource that has gone be seen to.
func (r *Reconciler) bury(key object.Key) {
	lease := r.Hub.Begin(watch.Subscriber{Key: key})
	left, _ := lease.Children(Kind, inventory.ApplySetID(key))
	lease.Discard()
	r.Hub.Forget(watch.Subscriber{Key: key})
	if r.Usages != nil {
		r.Usages.Forget(key)
	}
	for _, b := range left {
		r.Wake(object.KeyOf(b))
	}
}

// remember brings the state up to what is stored.
func (v *visit) remember(r *Reconciler) {
	v.state.Resource = carry.ResourceOf(v.object, r.Poll)
	v.state.Now, v.state.Until, v.state.Random = r.Now(), r.Until(), r.Random()
	v.state.Binding = nil
	if v.binding != nil {
		v.state.Binding, _ = specOf(v.binding)
	}
}

// markOwner names a managed resource on marks.
func (r *Reconciler) markOwner(o *unstructured.Unstructured) string {
	gk := o.GroupVersionKind().GroupKind()
	return fmt.Sprintf("%s/%s/%s@%s", schema.GroupKind{Group: gk.Group, Kind: gk.Kind}, o.GetNamespace(), o.GetName(), r.Installation)
}
