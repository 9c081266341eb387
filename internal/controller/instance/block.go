package instance

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/watch"
)

// blocker is what keeps a node's object from being made: an object of somebody
// else's that has its name, or a namespace that isn't there. It is watched by
// name, so that the node goes on by itself.
type blocker struct {
	need    plan.Need
	problem plan.Problem
	// refused is why the node doesn't take the object over although it may, if it does:
	// because of single fields, as long as the object is as it was.
	refused *plan.Refused
	// writers are who wrote the object, as far as it told when it was read: caches keep our
	// own managed fields only.
	writers string
}

// block notes what is in a node's way, in this pass and for the next ones.
func (v *visit) block(node string, by *unstructured.Unstructured, problem plan.Problem) {
	need := plan.Need{Kind: by.GroupVersionKind(), Namespace: by.GetNamespace(), Name: by.GetName()}
	if v.memory.blocked == nil {
		v.memory.blocked = map[string]blocker{}
	}
	v.memory.blocked[node] = blocker{need: need, problem: problem, writers: writersOf(by)}
	v.facts.Problems[node] = problem
}

// observeBlockers looks again at what was in the way of nodes.
func (r *Reconciler) observeBlockers(v *visit) {
	for node, by := range v.memory.blocked {
		found, state := v.lease.Object(by.need.Kind, by.need.Namespace, by.need.Name)
		there := found != nil
		free := state.Phase == watch.Synced && (!there || (v.owner.Owns(found) && found.GetDeletionTimestamp() == nil))
		if by.refused != nil && there {
			free = free || plan.Appearance(found) != by.refused.Seen
		}
		if by.need.Kind == namespaceKind {
			free = there && found.GetDeletionTimestamp() == nil
		}
		if free {
			delete(v.memory.blocked, node)
			delete(v.facts.Problems, node)
			continue
		}
		switch {
		case by.need.Kind == namespaceKind && state.Phase == watch.Synced:
			by.problem.Message = noNamespace(by.need.Name, there)
		case by.need.Kind != namespaceKind && there && by.refused == nil:
			by.problem = r.inTheWay(v, node, found, by.writers)
		}
		v.memory.blocked[node] = by
		v.facts.Problems[node] = by.problem
	}
}

// forgetBlockers drops what was in the way of nodes that there aren't any more: items
// of collections come and go.
func (v *visit) forgetBlockers() {
	for node := range v.memory.blocked {
		if !slices.ContainsFunc(v.desired.Nodes, func(n plan.Node) bool { return n.ID == node }) {
			delete(v.memory.blocked, node)
			delete(v.facts.Problems, node)
		}
	}
}

// inTheWay says of an object of somebody else's that has a node's name whether it
// is going, so that the node only has to wait, or whose it is and how it could
// become the instance's.
func (r *Reconciler) inTheWay(v *visit, node string, holder *unstructured.Unstructured, writers string) plan.Problem {
	switch {
	case holder.GetDeletionTimestamp() != nil && v.owner.Owns(holder):
		return plan.BeingDeleted(holder)
	case holder.GetDeletionTimestamp() != nil:
		return plan.NameHeldBy(holder, "is being deleted")
	}
	if key, version, ok := inventory.InstanceOf(holder); ok {
		owner, state := v.lease.Object(key.GroupKind().WithVersion(version), key.Namespace, key.Name)
		switch {
		case state.Phase == watch.Syncing || state.Phase == watch.Unwatched:
			return plan.Problem{Reason: plan.Syncing, Message: "looking whether " + key.String() + ", which has the name, is being deleted"}
		case owner != nil && owner.GetDeletionTimestamp() != nil:
			return plan.NameHeldBy(holder, "goes with "+key.String()+", which is being deleted")
		}
	}
	adopts := slices.ContainsFunc(v.desired.Nodes, func(n plan.Node) bool { return n.ID == node && n.AdoptUnowned })
	return notOwned(holder, v.owner, adopts, writers)
}

// notOwned says whose an object is, who wrote it, and how it could become the instance's.
// Adopts says that the node takes over what nobody keeps.
func notOwned(holder *unstructured.Unstructured, owner inventory.Owner, adopts bool, writers string) plan.Problem {
	whose, how := inventory.Whose(holder), "To adopt it, label it "+v1alpha1.ApplySetPartOfLabel+"="+owner.ID()
	switch {
	case !inventory.IsUnowned(holder):
		how = "Give one of the two another name, or have " + whose + " let it go"
	case owner.Definition.Dialect == inventory.GraphDialect && !adopts:
		how = "To adopt it, set adopt: IfUnowned on the resource, or label it " + v1alpha1.ApplySetPartOfLabel + "=" + owner.ID()
	}
	if _, _, known := inventory.InstanceOf(holder); !known && writers != "" {
		whose += " (written by " + writers + ")"
	}
	return plan.Problem{
		Reason:  plan.NotOwned,
		Message: fmt.Sprintf("%s exists already and belongs to %s; it is left alone. %s", object.KeyOf(holder), whose, how),
	}
}

var namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}

// missingNamespace says whether a write failed because its namespace isn't there,
// or is going, and names it.
func (r *Reconciler) missingNamespace(o *unstructured.Unstructured, err error) (namespace *unstructured.Unstructured, why string, missing bool) {
	var status apierrors.APIStatus
	namespace = &unstructured.Unstructured{}
	namespace.SetGroupVersionKind(namespaceKind)
	namespace.SetName(o.GetNamespace())
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return namespace, noNamespace(o.GetNamespace(), true), true
	case apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces":
		return namespace, noNamespace(o.GetNamespace(), false), true
	}
	return nil, "", false // the kind isn't served any more, say
}

// noNamespace says why nothing can be made in a namespace.
func noNamespace(name string, there bool) string {
	if there {
		return "namespace " + name + " is being deleted"
	}
	return "there is no namespace " + name
}
