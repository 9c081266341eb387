package definition

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/kube/queue"
)

// Reconcilers creates the reconcilers of a definition's kinds, one each time that the controller of a kind starts.
// The definition is the one that the kind was last published for; kind has the version that is reconciled. Call
// enqueueDefinition when an object of the kind is gone, because a deleted definition may wait for that.
type Reconcilers interface {
	Composite(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, enqueueDefinition func()) InstanceReconciler
	Claim(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, enqueueDefinition func()) InstanceReconciler
	// Stopped is called when the controller of a reconciler has stopped.
	Stopped(InstanceReconciler)
}

// InstanceReconciler reconciles the objects of one kind.
//
// Reconcile may be called before the first SetSnapshot, while compositions are not read yet:
// then it deletes the children of objects that are being deleted, and leaves other objects
// unchanged. After a SetSnapshot with a change, all objects are enqueued with low priority.
type InstanceReconciler interface {
	queue.Reconciler
	// SetSnapshot sets the definition and the compositions of the kind. Running reconciles
	// finish with the snapshot that they began with. It must not block.
	SetSnapshot(Snapshot)
}

// Snapshot contains the definition that a kind was last published for, all compositions for its composite kind, in
// any of its versions, and all of their revisions, sorted by name. It and its contents are immutable.
type Snapshot = xrd.Snapshot
