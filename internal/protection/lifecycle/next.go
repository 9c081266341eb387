// Package lifecycle decides on the next step of a Usage or ClusterUsage: label the used object, wait, replay a
// deletion, or remove the finalizer.
//
// Pure: it decides from values alone.
package lifecycle

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/usage"
)

// ReadyCondition is the type of a usage's condition.
const ReadyCondition = "Ready"

// Reasons of a usage's condition, as the dialect has them.
const (
	Available   = "Available"
	Unavailable = "Unavailable"
	Deleting    = "Deleting"
)

// OutsideNamespace is the reason of a Usage's condition if it names an object of another namespace,
// or a cluster-scoped one.
const OutsideNamespace = "OutsideNamespace"

// Lookup is the result of looking up an object: the object, nil if there is none, or why it
// cannot be read.
type Lookup struct {
	Object     *unstructured.Unstructured
	Unreadable string
}

// Syncing is why an object cannot be read while its cache is not synced yet.
const Syncing = "the cache is not synced yet"

// Selected is the result of looking up the objects that a selector matches.
type Selected struct {
	Objects    []*unstructured.Unstructured
	Unreadable string
}

// Facts are the input of a decision about a usage. The objects are shared with caches and
// must not be changed.
type Facts struct {
	Usage *unstructured.Unstructured
	Use   usage.Usage
	// Of is the used object and By the using one, once they are named.
	Of, By Lookup
	// OfSelected and BySelected are the matches of selectors that are not resolved yet.
	OfSelected, BySelected Selected
	// OfClusterScoped and ByClusterScoped report whether the kinds are cluster-scoped, though the
	// usage is in a namespace. Such objects are not looked up.
	OfClusterScoped, ByClusterScoped bool
	// DeletedWithOwner reports whether the instance that has composed the usage is being
	// deleted, too, and Circular whether the usage would wait for itself.
	DeletedWithOwner, Circular bool
	// LastUsage reports, for a usage that is about to be removed, whether no other one is left
	// for the used object.
	LastUsage bool
	// Refused is the refused deletion that is recorded for the used object, nil if none is, and
	// MayDelete whether the user who requested it may still delete the object.
	Refused   *Refused
	MayDelete bool
	// Replayed reports whether this reconcile has replayed the refused deletion.
	Replayed bool
}

// Refused is a deletion that was refused because the object was in use.
type Refused struct {
	// UID is the incarnation of the object.
	UID types.UID
	// Policy is the requested propagation policy, and User the user who requested it.
	Policy metav1.DeletionPropagation
	User   string
}

// Do is what a step does.
type Do string

// The steps.
const (
	// Finish ends the reconcile.
	Finish Do = "Finish"
	// PatchUsage merges the step's change into the usage.
	PatchUsage Do = "PatchUsage"
	// AddLabel adds the in-use label to the used object; RemoveLabel removes what the step's
	// change names.
	AddLabel    Do = "AddLabel"
	RemoveLabel Do = "RemoveLabel"
	// Replay deletes the used object, as the refused deletion has requested. ForgetRefused deletes
	// the record of that.
	Replay        Do = "Replay"
	ForgetRefused Do = "ForgetRefused"
	// RemoveFinalizer removes the finalizer of the usage.
	RemoveFinalizer Do = "RemoveFinalizer"
	// DeleteUsage deletes the usage, because the using object is gone.
	DeleteUsage Do = "DeleteUsage"
)

// Step is the next step of a usage.
type Step struct {
	Do Do
	// Change is merged into the usage, or into the used object.
	Change map[string]any
	// Policy is the propagation policy of a replayed deletion.
	Policy metav1.DeletionPropagation
	// Ready is the condition that Finish writes; none without a type.
	Ready v1alpha1.Condition
	// Stalled says that Ready stays False until a user acts.
	Stalled bool
}

// Next decides on the next step of a usage. After a crash in any step, Next continues from
// what is stored.
func Next(f Facts) Step {
	if f.Use.Deleting {
		return f.nextForDeletion()
	}
	if message := f.ofOutsideNamespace(); message != "" {
		return f.withdraw(f.stalled(OutsideNamespace, message))
	}
	if step, done := f.resolveSelectors(); done {
		return step
	}
	if f.isUserGone() {
		return Step{Do: DeleteUsage}
	}
	if f.Of.Unreadable != "" && !slices.Contains(f.Usage.GetFinalizers(), v1beta1.Finalizer) {
		return f.missing("the used object", f.Use.Of.Ref, f.Of.Unreadable) // it has protected nothing that its deletion could wait for
	}
	if change := f.missingMetadata(); len(change) > 0 {
		return Step{Do: PatchUsage, Change: map[string]any{"metadata": change}}
	}
	if of := f.Of.Object; of != nil && of.GetLabels()[v1beta1.InUseLabel] != "true" {
		return Step{Do: AddLabel, Change: inUsePatch("true", nil)}
	}
	switch {
	case f.Of.Object == nil:
		return f.missing("the used object", f.Use.Of.Ref, f.Of.Unreadable)
	case f.ByClusterScoped:
		return f.stalled(OutsideNamespace, "spec.by has the kind "+f.Use.By.Kind.Kind+", which is cluster-scoped: a Usage names objects of its own "+
			"namespace only; the used object stays protected until the Usage is deleted")
	case f.Use.By != nil && f.By.Object == nil:
		return f.missing("the using object", f.Use.By.Ref, f.By.Unreadable)
	}
	return f.finishWith(condition.True, Available, "")
}

// ofOutsideNamespace is why a Usage protects nothing: the used object is not in its namespace. Empty if it is. A user
// who may create Usages in a namespace might not even know of other objects.
func (f Facts) ofOutsideNamespace() string {
	const rule = ": a Usage protects objects of its own namespace only; create a "
	switch of := f.Use.Of; {
	case f.OfClusterScoped:
		return "spec.of has the kind " + of.Kind.Kind + ", which is cluster-scoped" + rule + "ClusterUsage"
	case f.Use.IsOfOtherNamespace():
		return "spec.of is in namespace " + of.Namespace + rule + "Usage in that namespace"
	}
	return ""
}

// IsOutsideNamespace reports whether the used object is not in the namespace of the usage.
func (f Facts) IsOutsideNamespace() bool { return f.ofOutsideNamespace() != "" }

// withdraw removes what a former release has written for a usage that protects nothing: the in-use
// label, unless another usage needs it, and the finalizer. Without the finalizer nothing was
// written.
func (f Facts) withdraw(done Step) Step {
	of := f.Of.Object
	switch {
	case !slices.Contains(f.Usage.GetFinalizers(), v1beta1.Finalizer):
		return done
	case f.Of.Unreadable == Syncing:
		return await()
	case f.Of.Unreadable != "":
		done.Ready.Message += "; cannot remove the in-use label, which a former release has set: " + f.Of.Unreadable
		return done
	case of != nil && f.LastUsage && of.GetLabels()[v1beta1.InUseLabel] != "":
		return Step{Do: RemoveLabel, Change: inUsePatch(nil, map[string]any{v1beta1.DeletionAttemptAnnotation: nil})}
	}
	return Step{Do: RemoveFinalizer}
}

// inUsePatch is a merge patch of an object's in-use label and annotations.
func inUsePatch(value any, annotations map[string]any) map[string]any {
	metadata := map[string]any{"labels": map[string]any{v1beta1.InUseLabel: value}}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	return map[string]any{"metadata": metadata}
}

// await ends the reconcile without a condition, because the cache will be synced soon.
func await() Step { return Step{Do: Finish} }

func (f Facts) finishWith(status metav1.ConditionStatus, reason, message string) Step {
	return Step{Do: Finish, Ready: v1alpha1.Condition{
		Type: ReadyCondition, Status: status, Reason: reason, Message: message, ObservedGeneration: f.Usage.GetGeneration(),
	}}
}

func (f Facts) stalled(reason, message string) Step {
	step := f.finishWith(condition.False, reason, message)
	step.Stalled = true
	return step
}

// Denied is the end of a reconcile after a step was denied, for lack of a permission for example.
func (f Facts) Denied(do Do, why string) Step {
	what := map[Do]string{
		PatchUsage: "change the usage", AddLabel: "add the in-use label to the used object", RemoveLabel: "remove the in-use label of the used object",
		Replay: "replay the deletion of the used object", ForgetRefused: "delete the record of the refused deletion",
		RemoveFinalizer: "remove the finalizer of the usage", DeleteUsage: "delete the Usage: the object that used it no longer exists",
	}[do]
	return f.stalled(Unavailable, "cannot "+what+": "+why)
}

func (f Facts) missing(which string, r usage.Ref, unreadable string) Step {
	switch unreadable {
	case "":
	case Syncing:
		return await()
	default:
		return f.finishWith(condition.False, Unavailable, "cannot determine whether "+which+" "+r.String()+" exists: "+unreadable)
	}
	return f.finishWith(condition.False, Unavailable, which+" "+r.String()+" does not exist")
}

// resolveSelectors writes the names that selectors match into the spec, once.
func (f Facts) resolveSelectors() (step Step, done bool) {
	if of := f.Use.Of; of.Name == "" {
		found, step := f.resolveSelector(of, f.OfSelected, "spec.of.resourceSelector")
		if found == nil {
			return step, true
		}
		ref := map[string]any{"name": found.GetName()}
		if ns := found.GetNamespace(); ns != "" && ns != f.Usage.GetNamespace() {
			ref["namespace"] = ns
		}
		return setReference("of", ref), true
	}
	if by := f.Use.By; by != nil && by.Name == "" && !f.ByClusterScoped {
		found, step := f.resolveSelector(*by, f.BySelected, "spec.by.resourceSelector")
		if found == nil {
			return step, true
		}
		return setReference("by", map[string]any{"name": found.GetName()}), true
	}
	return Step{}, false
}

func setReference(party string, ref map[string]any) Step {
	return Step{Do: PatchUsage, Change: map[string]any{"spec": map[string]any{party: map[string]any{"resourceRef": ref}}}}
}

// resolveSelector returns the first object that a selector matches.
func (f Facts) resolveSelector(p usage.Resource, from Selected, at string) (*unstructured.Unstructured, Step) {
	if p.Selector == nil {
		return nil, f.stalled(Unavailable, at+" is not set, and neither is resourceRef")
	}
	for _, o := range from.Objects {
		if !p.Selector.MatchControllerRef || areSiblings(o, f.Usage) {
			return o, Step{}
		}
	}
	switch from.Unreadable {
	case "":
	case Syncing:
		return nil, await()
	default:
		return nil, f.finishWith(condition.False, Unavailable, at+" cannot be resolved: "+from.Unreadable)
	}
	return nil, f.finishWith(condition.False, Unavailable, at+" matches no "+p.Kind.Kind)
}

// areSiblings reports whether two objects have the same controller or instance.
func areSiblings(a, b *unstructured.Unstructured) bool {
	if set := b.GetLabels()[v1alpha1.ApplySetPartOfLabel]; set != "" && set == a.GetLabels()[v1alpha1.ApplySetPartOfLabel] {
		return true
	}
	x, y := metav1.GetControllerOf(a), metav1.GetControllerOf(b)
	return x != nil && y != nil && x.UID == y.UID
}

// isUserGone reports whether the using object is gone, or contains the used one, which is then
// deleted with it.
func (f Facts) isUserGone() bool {
	if f.ByClusterScoped || f.By.Unreadable != "" {
		return false
	}
	by := f.By.Object
	return f.Use.Relation == usage.UserIsAncestor || (f.Use.ByUID != "" && (by == nil || by.GetUID() != f.Use.ByUID))
}

func (f Facts) missingMetadata() map[string]any {
	change := map[string]any{}
	if finalizers := f.Usage.GetFinalizers(); !slices.Contains(finalizers, v1beta1.Finalizer) {
		change["finalizers"] = append(slices.Clone(finalizers), v1beta1.Finalizer)
	}
	wanted := map[string]string{v1beta1.DetailsAnnotation: f.Use.Details()}
	by := f.By.Object
	if by != nil {
		wanted[v1beta1.UserAnnotation] = f.Use.UserAnnotation(by.GetUID())
	}
	annotations := map[string]any{}
	for key, value := range wanted {
		if f.Usage.GetAnnotations()[key] != value {
			annotations[key] = value
		}
	}
	if len(annotations) > 0 {
		change["annotations"] = annotations
	}
	if by != nil && f.Use.OwnerUID(f.Usage) != by.GetUID() {
		owners := slices.Clone(f.Usage.GetOwnerReferences())
		change["ownerReferences"] = append(owners, metav1.OwnerReference{
			APIVersion: by.GetAPIVersion(), Kind: by.GetKind(), Name: by.GetName(), UID: by.GetUID(),
		})
	}
	return change
}

// WaitsForUser reports whether a usage that is being deleted stays until the using object is
// gone. That is so if it is deleted with its instance, to enforce the order of deletion.
func (f Facts) WaitsForUser() bool {
	if !f.DeletedWithOwner || f.Circular || f.Use.Relation == usage.UserIsAncestor {
		return false
	}
	return f.By.Unreadable != "" || f.By.Object != nil
}

// Finalizers are the finalizers of the usage that RemoveFinalizer removes.
func (f Facts) Finalizers() []string { return []string{v1beta1.Finalizer} }

func (f Facts) nextForDeletion() Step {
	if !slices.Contains(f.Usage.GetFinalizers(), v1beta1.Finalizer) {
		return Step{Do: Finish}
	}
	if message := f.ofOutsideNamespace(); message != "" {
		return f.withdraw(f.finishWith(condition.False, Deleting, message))
	}
	if f.Of.Unreadable == Syncing || f.By.Unreadable == Syncing {
		return await()
	}
	if f.WaitsForUser() {
		return f.finishWith(condition.False, Deleting, "the usage waits until "+f.Use.By.String()+" is deleted, which uses "+f.Use.Of.String())
	}
	if f.Of.Unreadable != "" {
		return f.finishWith(condition.False, Deleting, "cannot remove the in-use label of "+f.Use.Of.String()+", which cannot be read: "+f.Of.Unreadable)
	}
	of := f.Of.Object
	switch {
	case of == nil && f.Refused != nil:
		return Step{Do: ForgetRefused}
	case of == nil || !f.LastUsage:
		return Step{Do: RemoveFinalizer}
	}
	_, marked := of.GetLabels()[v1beta1.InUseLabel]
	switch replay := f.replays(); {
	case replay && marked: // the webhook would refuse the deletion again
		return Step{Do: RemoveLabel, Change: inUsePatch(nil, nil)}
	case replay && !f.Replayed:
		return Step{Do: Replay, Policy: propagation(f.Refused.Policy)}
	case marked, f.isAttempted() && !f.Replayed: // a later usage must not replay this attempt
		return Step{Do: RemoveLabel, Change: inUsePatch(nil, map[string]any{v1beta1.DeletionAttemptAnnotation: nil})}
	case f.Refused != nil:
		return Step{Do: ForgetRefused}
	}
	return Step{Do: RemoveFinalizer}
}

// isAttempted reports whether the used object has the annotation of a refused deletion, and is not being deleted. A
// user who may write the object can set the annotation, so it proves nothing; removing it cancels the replay.
func (f Facts) isAttempted() bool {
	of := f.Of.Object
	if of == nil || of.GetDeletionTimestamp() != nil {
		return false
	}
	_, attempted := of.GetAnnotations()[v1beta1.DeletionAttemptAnnotation]
	return attempted
}

// Requested reports whether the usage asks for the replay of a deletion that is recorded for this
// incarnation of the used object. Then it depends on MayDelete.
func (f Facts) Requested() bool {
	return f.Use.Replay && f.isAttempted() && f.Refused != nil && f.Refused.UID == f.Of.Object.GetUID()
}

func (f Facts) replays() bool { return f.Requested() && f.MayDelete }

// NotReplayed is why the deletion that the used object's annotation shows is not replayed, though
// the usage asks for that; empty if there is nothing to say.
func (f Facts) NotReplayed() string {
	switch {
	case !f.Use.Replay || !f.isAttempted() || !f.LastUsage || f.IsOutsideNamespace() || f.replays():
		return ""
	case !f.Requested():
		return "the annotation " + v1beta1.DeletionAttemptAnnotation + " is no proof, and no refused deletion is recorded"
	}
	return "user " + f.Refused.User + ", who requested it, is no longer allowed to delete the object"
}

// propagation defaults the policy of a replayed deletion.
func propagation(p metav1.DeletionPropagation) metav1.DeletionPropagation {
	switch p {
	case metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
		return p
	default:
		return metav1.DeletePropagationBackground
	}
}

// Progress is what the usage needs; nothing while it is being deleted.
func (s Step) Progress() condition.Progress {
	if s.Ready.Reason == Deleting {
		return condition.Progress{}
	}
	return condition.ProgressOf(s.Ready, s.Stalled)
}

// Status returns the usage's status with the conditions in place of its own.
func (s Step) Status(before map[string]any, conditions condition.Set) map[string]any {
	status := maps.Clone(before)
	if status == nil {
		status = map[string]any{}
	}
	status["conditions"], status["observedGeneration"] = conditions.Unstructured(), s.Ready.ObservedGeneration
	return status
}
