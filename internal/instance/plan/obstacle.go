package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// NamespaceKind is the kind of namespaces.
var NamespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// Obstacle keeps a node's object from being made: an object of somebody else's that has its
// name, or a namespace that can't take it. It is watched by name, so that the node goes on by
// itself.
type Obstacle struct {
	Need    Need
	Problem Problem
	// Refused is why the node doesn't take the object over although it may: single fields are
	// in conflict, for as long as the object is as it was. Nil if that isn't the reason.
	Refused *Refused
	// Writers names who wrote the object, as far as was known when it was read from the API
	// server: caches keep our own managed fields only.
	Writers string
}

// IsCleared says whether the node may be tried again, given the object of the obstacle's name,
// nil if there is none. Synced says that a missing object is known not to exist.
func (o Obstacle) IsCleared(found *unstructured.Unstructured, synced bool, owner inventory.Owner) bool {
	switch {
	case o.IsNamespace():
		return found != nil && found.GetDeletionTimestamp() == nil
	case found == nil:
		return synced
	case o.Refused != nil && Appearance(found) != o.Refused.Seen:
		return true
	}
	return synced && owner.Owns(found) && found.GetDeletionTimestamp() == nil
}

// IsNamespace says whether the obstacle is a namespace.
func (o Obstacle) IsNamespace() bool { return o.Need.Kind == NamespaceKind }

// Holder is an object that has the name of a node's.
type Holder struct {
	*unstructured.Unstructured
	// Writers names who wrote it, as far as is known.
	Writers string
	// Instance is the instance that it belongs to, and Syncing says that it isn't known yet
	// whether there is one; see inventory.InstanceOf.
	Instance *unstructured.Unstructured
	Syncing  bool
}

// NameConflict is the problem of a node whose name an object has. Where that object is on its
// way, the node only has to wait; otherwise it says whose the object is and how it could become
// the instance's. Adopts says that the node takes over what nobody keeps.
func NameConflict(h Holder, owner inventory.Owner, adopts bool) Problem {
	key, _, known := inventory.InstanceOf(h.Unstructured)
	switch {
	case h.GetDeletionTimestamp() != nil && owner.Owns(h.Unstructured):
		return BeingDeleted(h.Unstructured)
	case h.GetDeletionTimestamp() != nil:
		return NameHeldBy(h.Unstructured, "is being deleted")
	case known && h.Syncing:
		return Problem{Reason: Syncing, Message: "looking whether " + key.String() + ", which has the name, is being deleted"}
	case known && h.Instance != nil && h.Instance.GetDeletionTimestamp() != nil:
		return NameHeldBy(h.Unstructured, "goes with "+key.String()+", which is being deleted")
	}
	return notOwned(h, owner, adopts)
}

// notOwned says whose an object is, who wrote it, and how it could become the instance's.
func notOwned(h Holder, owner inventory.Owner, adopts bool) Problem {
	whose, how := inventory.Whose(h.Unstructured), "To adopt it, label it "+v1alpha1.ApplySetPartOfLabel+"="+owner.ID()
	switch {
	case !inventory.IsUnowned(h.Unstructured):
		how = "Give one of the two another name, or have " + whose + " let it go"
	case owner.Definition.Dialect == object.GraphDialect && !adopts:
		how = "To adopt it, set adopt: IfUnowned on the resource, or label it " + v1alpha1.ApplySetPartOfLabel + "=" + owner.ID()
	}
	if _, _, known := inventory.InstanceOf(h.Unstructured); !known && h.Writers != "" {
		whose += " (written by " + h.Writers + ")"
	}
	return Problem{
		Reason:  NotOwned,
		Message: fmt.Sprintf("%s exists already and belongs to %s; it is left alone. %s", object.KeyOf(h), whose, how),
	}
}

// MissingNamespace is the problem of a node whose object can't be made in a namespace: it isn't
// there, or, if exists is true, it is being deleted.
func MissingNamespace(name string, exists bool) Problem {
	if exists {
		return Problem{Reason: WaitingForNamespace, Message: "namespace " + name + " is being deleted"}
	}
	return Problem{Reason: WaitingForNamespace, Message: "there is no namespace " + name}
}
