package definition

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/kube/queue"
)

// Kinds makes what serves the kinds of a definition: one Served for each time that a kind
// begins to be served. The definition is the one that the kind was last published for;
// kind has the version that is worked in. Wake asks for another pass over the definition:
// it is for an object that is gone, which a deleted definition may wait for.
type Kinds interface {
	Composite(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) Served
	Claim(d *v1.CompositeResourceDefinition, kind schema.GroupVersionKind, wake func()) Served
}

// Served serves the objects of one kind.
//
// Its Reconcile may be called before the first Use, while it isn't known yet which
// compositions there are: then objects that are being deleted are taken apart, and others
// are left as they are. After a Use that brings something new all objects are asked for
// again, as the least urgent work there is.
type Served interface {
	queue.Reconciler
	// Use gives it the world of its kind as it is now. It is called while passes run,
	// which finish with what they began with. It must not block.
	Use(Snapshot)
}

// Snapshot is a definition as its kinds are served by, with all compositions that are for
// its composite kind, in whatever version of it, and all of their revisions, both sorted
// by name. It is immutable, and so is all that it holds.
type Snapshot = xrd.Snapshot
