// Package lifecycle decides what to do next about a Usage or ClusterUsage: mark what it is of, wait, replay a deletion,
// or end.
//
// Pure: it decides from values alone.
package lifecycle

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// Lookup is the result of looking up an object: it, nil where there is none, or why that
// is not known.
type Lookup struct {
	Object  *unstructured.Unstructured
	Unknown string
}

// Reading is why nothing is known of an object that is being read for the first time.
const Reading = "it is being read"

// Selected is the result of looking up the objects that a selector matches.
type Selected struct {
	Objects []*unstructured.Unstructured
	Unknown string
}

// Facts are what is known in one reconcile of a usage. The objects are shared with caches
// and must not be changed.
type Facts struct {
	Usage *unstructured.Unstructured
	Use   usage.Use
	// Of and By are the two that it is about, once they are named.
	Of, By Lookup
	// OfSelected and BySelected are what a selector matches that is still to be resolved.
	OfSelected, BySelected Selected
	// Together says that the usage goes with the composite that it is a part of, and
	// Circular that it would wait for itself.
	Together, Circular bool
	// Last says, of a usage that goes now, that no other is left for what it is of.
	Last bool
	// Replayed says that the deletion that was refused has been made again.
	Replayed bool
}

// Do is what a step does.
type Do string

// The steps.
const (
	// Rest: nothing, for now.
	Rest Do = "Rest"
	// Write merges the step's change into the usage.
	Write Do = "Write"
	// Mark puts the label onto what is used; Unmark takes the step's marks off.
	Mark   Do = "Mark"
	Unmark Do = "Unmark"
	// Replay deletes what is used, as was asked for before.
	Replay Do = "Replay"
	// Release takes the finalizer off the usage.
	Release Do = "Release"
	// Remove deletes the usage: who used it has gone.
	Remove Do = "Remove"
)

// Step is what to do next about a usage.
type Step struct {
	Do Do
	// Change is to be merged into the usage, or into what is used.
	Change map[string]any
	// Policy is for what depends on an object that is deleted.
	Policy metav1.DeletionPropagation
	// Ready is what to tell, of a Rest.
	Ready v1alpha1.Condition
}

// Next decides on the next step about a usage. Each is such that a crash right after it
// is recovered from by asking again.
func Next(f Facts) Step {
	if f.Use.Deleting {
		return f.end()
	}
	if step, done := f.resolve(); done {
		return step
	}
	if f.byGone() {
		return Step{Do: Remove}
	}
	if change := f.claim(); len(change) > 0 {
		return Step{Do: Write, Change: map[string]any{"metadata": change}}
	}
	if of := f.Of.Object; of != nil && of.GetLabels()[v1beta1.InUseLabel] != "true" {
		return Step{Do: Mark, Change: marks(v1beta1.InUseLabel, "true", nil)}
	}
	switch {
	case f.Of.Object == nil:
		return f.missing(f.Use.Of.Ref, f.Of.Unknown, "which is used")
	case f.Use.By != nil && f.By.Object == nil:
		return f.missing(f.Use.By.Ref, f.By.Unknown, "which uses "+f.Use.Of.String())
	}
	return f.restWith(condition.True, Available, "")
}

// marks is a change of an object's metadata.
func marks(label string, value any, annotations map[string]any) map[string]any {
	metadata := map[string]any{"labels": map[string]any{label: value}}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	return map[string]any{"metadata": metadata}
}

// wait reports nothing: what is unknown will be known in a moment.
func wait() Step { return Step{Do: Rest} }

func (f Facts) restWith(status metav1.ConditionStatus, reason, message string) Step {
	return Step{Do: Rest, Ready: v1alpha1.Condition{
		Type: ReadyCondition, Status: status, Reason: reason, Message: message, ObservedGeneration: f.Usage.GetGeneration(),
	}}
}

func (f Facts) missing(r usage.Ref, unknown, what string) Step {
	switch unknown {
	case "":
	case Reading:
		return wait()
	default:
		return f.restWith(condition.False, Unavailable, "cannot determine whether there is "+r.String()+", "+what+": "+unknown)
	}
	return f.restWith(condition.False, Unavailable, "there is no "+r.String()+", "+what)
}

// resolve names what selectors mean, once and for good.
func (f Facts) resolve() (step Step, done bool) {
	if of := f.Use.Of; of.Name == "" {
		found, step := f.selected(of, f.OfSelected, "spec.of.resourceSelector")
		if found == nil {
			return step, true
		}
		ref := map[string]any{"name": found.GetName()}
		if ns := found.GetNamespace(); ns != "" && ns != f.Usage.GetNamespace() {
			ref["namespace"] = ns
		}
		return named("of", ref), true
	}
	if by := f.Use.By; by != nil && by.Name == "" {
		found, step := f.selected(*by, f.BySelected, "spec.by.resourceSelector")
		if found == nil {
			return step, true
		}
		return named("by", map[string]any{"name": found.GetName()}), true
	}
	return Step{}, false
}

func named(party string, ref map[string]any) Step {
	return Step{Do: Write, Change: map[string]any{"spec": map[string]any{party: map[string]any{"resourceRef": ref}}}}
}

// selected is the first of those that a selector means.
func (f Facts) selected(p usage.Party, from Selected, at string) (*unstructured.Unstructured, Step) {
	if p.Selector == nil {
		return nil, f.restWith(condition.False, Unavailable, at+" isn't there, and neither is a reference")
	}
	for _, o := range from.Objects {
		if !p.Selector.Sibling || siblings(o, f.Usage) {
			return o, Step{}
		}
	}
	switch from.Unknown {
	case "":
	case Reading:
		return nil, wait()
	default:
		return nil, f.restWith(condition.False, Unavailable, at+" can't be resolved: "+from.Unknown)
	}
	return nil, f.restWith(condition.False, Unavailable, at+" matches no "+p.Kind.Kind)
}

// siblings says whether two objects have the same controller, or are parts of the same
// instance.
func siblings(a, b *unstructured.Unstructured) bool {
	if set := b.GetLabels()[v1alpha1.ApplySetPartOfLabel]; set != "" && set == a.GetLabels()[v1alpha1.ApplySetPartOfLabel] {
		return true
	}
	x, y := metav1.GetControllerOf(a), metav1.GetControllerOf(b)
	return x != nil && y != nil && x.UID == y.UID
}

// byGone says that who used it has gone, or is going and takes with it what it uses.
func (f Facts) byGone() bool {
	if f.Use.By == nil || f.By.Unknown != "" {
		return false
	}
	by := f.By.Object
	return f.Use.Kin == usage.UserAbove || (f.Use.ByUID != "" && (by == nil || by.GetUID() != f.Use.ByUID))
}

// claim is what the usage lacks in its metadata.
func (f Facts) claim() map[string]any {
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

// Waits says whether a usage that is being deleted stays until who uses it has gone: when
// both go with one composite, the order is what it is there for.
func (f Facts) Waits() bool {
	switch {
	case !f.Use.Deleting, f.Use.By == nil, f.Use.By.Name == "", !f.Together, f.Circular, f.Use.Kin == usage.UserAbove:
		return false
	}
	return f.By.Unknown != "" || f.By.Object != nil
}

// Finalizers are those of the usage that a Release takes off.
func (f Facts) Finalizers() []string { return []string{v1beta1.Finalizer} }

// end lets a usage go.
func (f Facts) end() Step {
	if !slices.Contains(f.Usage.GetFinalizers(), v1beta1.Finalizer) {
		return Step{Do: Rest}
	}
	if f.Of.Unknown == Reading || f.By.Unknown == Reading {
		return wait()
	}
	if f.Waits() {
		return f.restWith(condition.False, Deleting, "it stays until "+f.Use.By.String()+" has gone, which uses "+f.Use.Of.String())
	}
	if f.Of.Unknown != "" {
		return f.restWith(condition.False, Deleting, "the label of "+f.Use.Of.String()+" is to be taken off first, and it can't be read: "+f.Of.Unknown)
	}
	of := f.Of.Object
	if of == nil || !f.Last {
		return Step{Do: Release}
	}
	policy, tried := of.GetAnnotations()[v1beta1.DeletionAttemptAnnotation]
	replay := tried && f.Use.Replay && of.GetDeletionTimestamp() == nil
	_, marked := of.GetLabels()[v1beta1.InUseLabel]
	switch {
	case tried && !f.Use.Replay: // nobody is to come back to it much later
		return Step{Do: Unmark, Change: marks(v1beta1.InUseLabel, nil, map[string]any{v1beta1.DeletionAttemptAnnotation: nil})}
	case marked:
		return Step{Do: Unmark, Change: marks(v1beta1.InUseLabel, nil, nil)}
	case replay && !f.Replayed:
		return Step{Do: Replay, Policy: propagation(policy)}
	}
	return Step{Do: Release}
}

// propagation reads what was asked for when a deletion was refused.
func propagation(text string) metav1.DeletionPropagation {
	switch p := metav1.DeletionPropagation(text); p {
	case metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
		return p
	default:
		return metav1.DeletePropagationBackground
	}
}

// Status is a usage's status with its condition in it.
func (s Step) Status(before map[string]any, conditions condition.Set) map[string]any {
	status := maps.Clone(before)
	if status == nil {
		status = map[string]any{}
	}
	status["conditions"] = conditions.Unstructured()
	return status
}
