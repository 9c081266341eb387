package cluster

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Follower is implemented by reconcilers that serve kinds in every installation: of definitions, say. They are called for
// objects outside of the installation's namespaces too, with a context that refuses writes. Such a reconcile goes as far
// as it can without them; the writes of another installation are events that continue it.
type Follower interface{ Follows() }

// Disowner is implemented by reconcilers that remember something of each object. Of others, only the watches are dropped.
type Disowner interface {
	// Disown forgets an object that this installation does not work on, and drops its watches. It is not called while
	// the object is reconciled.
	Disown(object.Key)
}

// Serve starts the controller of a kind, for the objects that Options.Shard selects. It is suspended while there is a Hold.
func (k *Cluster) Serve(kind schema.GroupVersionKind, r queue.Reconciler) *queue.Controller {
	return k.Engine.Start(kind, k.ofShard(kind, k.Gate.Wrap(kind, r), r, true), nil)
}

// Start is Serve for a controller that a Hold does not suspend.
func (k *Cluster) Start(kind schema.GroupVersionKind, r queue.Reconciler) *queue.Controller {
	return k.Engine.Start(kind, k.ofShard(kind, r, r, true), nil)
}

// Instances returns a reconciler of a kind that a definition serves. It is called for objects in the namespaces that
// Options.Shard selects, and suspended while there is a Hold. Labels do not select them: the definition's have.
func (k *Cluster) Instances(kind schema.GroupVersionKind, r queue.Reconciler) queue.Reconciler {
	return k.ofShard(kind, k.Gate.Wrap(kind, r), r, false)
}

func (k *Cluster) ofShard(kind schema.GroupVersionKind, r, unwrapped queue.Reconciler, byLabels bool) queue.Reconciler {
	if k.options.Shard.All() {
		return r
	}
	_, follows := unwrapped.(Follower)
	disowner, _ := unwrapped.(Disowner)
	return shardReconciler{k.options.Shard, k.Hub, kind, r, disowner, follows, byLabels}
}

// shardReconciler reconciles the objects that a selector selects.
type shardReconciler struct {
	selector shard.Selector
	cache    objectCache
	kind     schema.GroupVersionKind
	next     queue.Reconciler
	disowner Disowner // or nil
	follows  bool
	byLabels bool
}

// objectCache is the cache of reconciled objects, and drops watches; *watch.Hub implements it.
type objectCache interface {
	GetCached(kind schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool)
	Forget(watch.Subscriber)
}

// Reconcile forgets objects that are not selected any more: their labels have changed.
func (r shardReconciler) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	o, cached := r.cache.GetCached(r.kind, key.Namespace, key.Name)
	labeled := !r.byLabels || !cached || r.selector.Labeled(o.GetLabels())
	switch {
	case labeled && r.selector.InNamespace(namespaceOf(o, key)):
		return r.next.Reconcile(ctx, key)
	case labeled && r.follows:
		out := r.next.Reconcile(kube.ReadOnly(ctx), key)
		if errors.Is(out.Err, kube.ErrReadOnly) {
			return reconcile.Done()
		}
		return out
	case r.disowner != nil:
		r.disowner.Disown(key)
	default:
		r.cache.Forget(watch.Subscriber{Key: key})
	}
	return reconcile.Done()
}

// bindingKind is the kind of Bindings.
var bindingKind = espalier.GroupVersion.WithKind(espalier.BindingKind)

// namespaceOf is the namespace by which an object is selected. A Binding is reconciled where its managed resource is.
func namespaceOf(o *unstructured.Unstructured, key object.Key) string {
	if o != nil && o.GroupVersionKind() == bindingKind {
		namespace, _, _ := unstructured.NestedString(o.Object, "spec", "owner", "namespace")
		return namespace
	}
	return key.Namespace
}

// Objects returns the cached objects of a served kind in the namespaces that Options.Shard selects, in no order.
func (k *Cluster) Objects(kind schema.GroupVersionKind) (out []*unstructured.Unstructured) {
	for _, key := range k.Hub.Keys(kind) {
		if o, cached := k.Hub.GetCached(kind, key.Namespace, key.Name); cached && k.options.Shard.InNamespace(key.Namespace) {
			out = append(out, o)
		}
	}
	return out
}
