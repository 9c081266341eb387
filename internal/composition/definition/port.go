package definition

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/kube/queue"
)

// Kinds makes the reconcilers of the kinds of a definition: one Served each time that a
// kind begins to be served. The definition is the one that the kind was last published for;
// kind has the version that is reconciled. wake enqueues the definition; call it when an
// object of the kind is gone, since a deleted definition may wait for that.
type Kinds interface {
	Composite(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) Served
	Claim(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) Served
	// Stopped is called when the controller of a Served has stopped.
	Stopped(Served)
}

// Served reconciles the objects of one kind.
//
// Reconcile may be called before the first SetSnapshot, while compositions are not read yet:
// then it deletes the children of objects that are being deleted, and leaves other objects
// unchanged. After a SetSnapshot with a change, all objects are enqueued with low priority.
type Served interface {
	queue.Reconciler
	// SetSnapshot sets the definition and the compositions of the kind. Running reconciles
	// finish with the snapshot that they began with. It must not block.
	SetSnapshot(Snapshot)
}

// Snapshot is a definition as its kinds are served by, with all compositions that are for
// its composite kind, in whatever version of it, and all of their revisions, both sorted
// by name. It is immutable, and so is all that it holds.
type Snapshot = xrd.Snapshot
