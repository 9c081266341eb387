package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// NamespaceKind is the kind of namespaces.
var NamespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// CRDKind is the kind of CustomResourceDefinitions.
var CRDKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

// Obstacle keeps a node's object from being created: a foreign object that has its name, or a namespace that is missing
// or terminating. It is watched by name, so the node continues once it is gone.
type Obstacle struct {
	Need    Need
	Problem Problem
	// Refused is set if the node may take the object over and single fields are in conflict:
	// the obstacle lasts until the object changes.
	Refused *RefusedApply
	// Writers names the field managers of the object, from when it was read from the API
	// server: caches keep our own managed fields only.
	Writers string
}

// IsCleared reports whether the node may be applied again, given the object with the obstacle's name, nil if there is
// none. Synced says that a missing object is known not to exist.
func (o Obstacle) IsCleared(found *unstructured.Unstructured, synced bool, owner inventory.Owner) bool {
	switch {
	case o.IsNamespace():
		return found != nil && found.GetDeletionTimestamp() == nil
	case found == nil:
		return synced
	case o.Refused != nil && ContentDigest(found) != o.Refused.LiveDigest:
		return true
	}
	return synced && owner.Owns(found) && found.GetDeletionTimestamp() == nil && !owner.IsOfOtherGraph(found)
}

// IsNamespace reports whether the obstacle is a namespace.
func (o Obstacle) IsNamespace() bool { return o.Need.Kind == NamespaceKind }

// NameHolder is an existing object that has the name of a node's object.
type NameHolder struct {
	*unstructured.Unstructured
	// Writers names its field managers, as far as they are known.
	Writers string
	// Instance is the instance that it belongs to, and Syncing says that the instance has not
	// been read yet; see inventory.InstanceOf.
	Instance *unstructured.Unstructured
	Syncing  bool
	// Reported is the problem of the node that the status has. It stays until the instance is read, so a restart does
	// not change it.
	Reported Problem
}

// NameConflictProblem is the problem of a node when an existing object has its name. If that object is being deleted,
// the node only waits; otherwise the message names the owner and how the instance could adopt the object. Adopts says
// that the node takes over objects without owner.
func NameConflictProblem(h NameHolder, owner inventory.Owner, adopts bool) Problem {
	key, _, known := inventory.InstanceOf(h.Unstructured)
	known = known && key != owner.Key() // which only its metadata says
	holds, goes := key.String()+", which has the name,", "goes with "+key.String()+", which is being deleted"
	if _, hidden := inventory.DescribeOwnerIn(owner.Namespace, h.Unstructured); hidden {
		holds, goes = "the owner of "+object.KeyOf(h).String()+" in another namespace", "is deleted with that object"
	}
	switch {
	case h.GetDeletionTimestamp() != nil && owner.Owns(h.Unstructured):
		return TerminatingProblem(h.Unstructured)
	case h.GetDeletionTimestamp() != nil:
		return NameHeldProblem(owner.Namespace, h.Unstructured, "is being deleted")
	case known && h.Syncing && h.Reported.IsNotOwned(object.KeyOf(h)):
		return h.Reported
	case known && h.Syncing:
		return Problem{Reason: Syncing, Message: "checking whether " + holds + " is being deleted"}
	case known && h.Instance != nil && h.Instance.GetDeletionTimestamp() != nil:
		return NameHeldProblem(owner.Namespace, h.Unstructured, goes)
	}
	return notOwned(h, owner, adopts)
}

func notOwned(h NameHolder, owner inventory.Owner, adopts bool) Problem {
	how := "Delete it, or give one of the two another name"
	described, hidden := inventory.DescribeOwnerIn(owner.Namespace, h.Unstructured)
	if h.GetLabels()[v1alpha1.ApplySetPartOfLabel] == owner.ID() && owner.IsUnowned(h.Unstructured) {
		described = "no known owner: its labels name this instance, and nothing proves that the instance has created it"
	}
	switch {
	case !owner.IsUnowned(h.Unstructured) && hidden:
		how = "Its metadata names that object: have it release this one, or give one of the two another name"
	case !owner.IsUnowned(h.Unstructured):
		how = "Give one of the two another name, or have " + described + " release it"
	case adopts:
		how = "It is adopted with the next reconcile"
	case owner.IsDisprovedBySignature(h.Unstructured):
		how = "If it is this instance's, remove its annotation " + v1alpha1.SignatureAnnotation + ", which is invalid; if not, delete it, or give one of the two another name"
	case isDefinition(h.GroupVersionKind().GroupKind()): // is adopted by nobody
	case owner.Definition.Dialect == object.ClaimDialect:
		how = "To let the claim take it over, annotate it " + v1alpha1.ClaimableAnnotation + "=" + owner.Namespace + "/" + owner.Name
	case owner.Definition.Dialect == object.GraphDialect:
		how = "To adopt it, set adopt: IfUnowned on the resource"
	case h.GroupVersionKind().GroupKind() != CRDKind:
		how = fmt.Sprintf("To adopt it, set the annotation %s: %s on the resource in the composition", v1alpha1.AdoptAnnotation, v1alpha1.AdoptIfUnowned)
	}
	if _, _, known := inventory.InstanceOf(h.Unstructured); !known && h.Writers != "" {
		described += " (written by " + h.Writers + ")"
	}
	return Problem{
		Reason:  NotOwned,
		Message: fmt.Sprintf("%s%sbelongs to %s; it is not changed. %s", object.KeyOf(h), existsAlready, described, how),
	}
}

// existsAlready follows the name of an object that is not owned.
const existsAlready = " already exists and "

// IsNotOwned reports whether the problem is that an object exists already and is not the instance's.
func (p Problem) IsNotOwned(key object.Key) bool {
	return p.Reason == NotOwned && strings.HasPrefix(p.Message, key.String()+existsAlready)
}

// MissingNamespaceProblem is the problem of a node in a namespace that doesn't exist or, if exists is true, is being
// deleted.
func MissingNamespaceProblem(name string, exists bool) Problem {
	if exists {
		return Problem{Reason: WaitingForNamespace, Message: "namespace " + name + " is being deleted"}
	}
	return Problem{Reason: WaitingForNamespace, Message: "namespace " + name + " not found; it continues when the namespace is created"}
}
