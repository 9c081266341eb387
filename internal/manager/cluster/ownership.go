package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/shard"
)

// Replicas shares the work with other processes; *membership.Membership does. It is safe for concurrent use.
type Replicas interface {
	// OnMove sets what is called with slots that this process has taken or released.
	OnMove(func(shard.Set))
	// Holds reports whether this process reconciles the objects of a slot.
	Holds(shard.Slot) bool
	// Assigned are the slots that this process holds or is about to take. Reassigned, of OnAssign, is called when they
	// have changed.
	Assigned() shard.Set
	OnAssign(reassigned func())
	// Begin begins a reconcile; see queue.Ownership.
	Begin(context.Context, shard.Slot) (context.Context, func())
	// Rest publishes for which Holds nothing is reconciled here, and reports whether the other replicas rest for
	// all of them too. Changed, of OnRest, is called when that may have changed.
	Rest(ctx context.Context, holds []string) (all bool, err error)
	OnRest(changed func())
	// Slots are those that this process holds. Publish and Reports exchange reports among the replicas, on topics;
	// Changed, of OnReport, is called when a report of another one has changed.
	Slots() shard.Set
	Publish(topic string, report []byte)
	Reports(topic string) [][]byte
	OnReport(changed func())
}

// ownership is queue.Ownership by the slots of objects.
type ownership struct {
	cluster  *Cluster
	replicas Replicas
}

func (o ownership) Owns(key object.Key) bool { return o.replicas.Holds(o.slotOf(key)) }

func (o ownership) Begin(ctx context.Context, key object.Key) (context.Context, func()) {
	return o.replicas.Begin(ctx, o.slotOf(key))
}

// bindingKind is the kind of Bindings.
var bindingKind = espalier.GroupVersion.WithKind(espalier.BindingKind)

// slotOf is the slot of an object. A Binding is reconciled where its managed resource is.
func (o ownership) slotOf(key object.Key) shard.Slot {
	if key.Kind == bindingKind.Kind && key.Group == bindingKind.Group {
		if b, cached := o.cluster.Hub.GetCached(bindingKind, key.Namespace, key.Name); cached {
			namespace, _, _ := unstructured.NestedString(b.Object, "spec", "owner", "namespace")
			name, _, _ := unstructured.NestedString(b.Object, "spec", "owner", "name")
			return shard.SlotOf(namespace, name)
		}
	}
	return shard.SlotOf(key.Namespace, key.Name)
}

// part is watch.Part by the slots that this process holds or is about to take.
type part struct{ ownership }

// SlotOf is the slot of the instance or managed resource that an object names as its owner, where the ID in its label
// proves that. Bindings are in every part: managed resources read those of others by name.
func (p part) SlotOf(o *unstructured.Unstructured) (slot shard.Slot, known bool) {
	if o.GroupVersionKind() == bindingKind {
		return 0, false
	}
	owner, _, known := inventory.InstanceOf(o)
	if !known || owner.GroupKind() == bindingKind.GroupKind() {
		return 0, false
	}
	return shard.SlotOf(owner.Namespace, owner.Name), true
}

func (p part) SlotOfSubscriber(s watch.Subscriber) shard.Slot { return p.slotOf(s.Key) }

func (p part) Slots() shard.Set { return p.replicas.Assigned() }

// moved enqueues the objects of slots that were taken or released.
func (o ownership) moved(slots shard.Set) {
	o.cluster.Engine.Moved(func(key object.Key) bool { return slots.Has(o.slotOf(key)) })
	o.cluster.Gate.Recheck()
}
