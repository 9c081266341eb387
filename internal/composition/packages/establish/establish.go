// Package establish decides which objects of a package revision are created, changed, taken over or left alone.
//
// A revision controls its objects, and its package owns them too, so an object that a newer version does not contain stays until
// the package is deleted. An object that another controller owns is refused, unless that controller is a revision of the same
// source or does not exist any more. Either all objects are written or, if one is refused, none.
//
// Pure: it decides from values alone.
package establish

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Owner is a revision or a package.
type Owner struct {
	APIVersion, Kind, Name string
	UID                    types.UID
}

func (o Owner) reference(controller bool) metav1.OwnerReference {
	block := true
	return metav1.OwnerReference{APIVersion: o.APIVersion, Kind: o.Kind, Name: o.Name, UID: o.UID, Controller: &controller, BlockOwnerDeletion: &block}
}

// Facts are the objects of a revision, and what is known of their controllers.
type Facts struct {
	// Revision controls the objects, and Package owns them too; one without a UID does not exist.
	Revision, Package Owner
	// Labels and Annotations are added to all objects.
	Labels, Annotations map[string]string
	// Objects are the objects of the package, with apiVersion, kind and name.
	Objects []*unstructured.Unstructured
	// Live returns an object as it is in the cluster; nil if there is none.
	Live func(*unstructured.Unstructured) *unstructured.Unstructured
	// Replaceable reports whether a controller can be replaced by the revision: it has the same source, or does not exist any
	// more.
	Replaceable func(metav1.OwnerReference) bool
}

// Action is what to do with an object.
type Action string

// The actions.
const (
	// Create creates an object.
	Create Action = "Create"
	// Update applies an object to the one that exists.
	Update Action = "Update"
)

// Step is one write.
type Step struct {
	Action Action
	// Object is what has to be applied, with its owners and the digest of its content.
	Object *unstructured.Unstructured
	// UID is the UID of the object to update.
	UID types.UID
}

// Plan is either steps or refusals.
type Plan struct {
	Steps []Step
	// Refusals are the objects that the package must not have, with their owners.
	Refusals []string
}

// Compute plans. Objects that are as they have to be need no step.
func Compute(f Facts) Plan {
	var p Plan
	for _, o := range f.Objects {
		desired := f.desired(o)
		live := f.Live(o)
		if live == nil {
			p.Steps = append(p.Steps, Step{Action: Create, Object: desired})
			continue
		}
		owners, refusal := f.owners(live)
		switch {
		case refusal != "":
			p.Refusals = append(p.Refusals, refusal)
		case live.GetDeletionTimestamp() != nil:
			p.Refusals = append(p.Refusals, describe(live)+" is being deleted")
		case live.GetAnnotations()[v1alpha1.AppliedAnnotation] != desired.GetAnnotations()[v1alpha1.AppliedAnnotation],
			!slices.EqualFunc(owners, live.GetOwnerReferences(), equal):
			desired.SetOwnerReferences(owners)
			p.Steps = append(p.Steps, Step{Action: Update, Object: desired, UID: live.GetUID()})
		}
	}
	if len(p.Refusals) > 0 {
		slices.Sort(p.Refusals)
		p.Steps = nil
	}
	return p
}

// desired is an object with the labels of the package, its owners and a digest of everything but the owners.
func (f Facts) desired(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	unstructured.RemoveNestedField(o.Object, "status")
	unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
	o.SetLabels(merged(o.GetLabels(), f.Labels))
	o.SetAnnotations(merged(o.GetAnnotations(), f.Annotations))
	o.SetAnnotations(merged(o.GetAnnotations(), map[string]string{v1alpha1.AppliedAnnotation: object.Digest(o.Object)}))
	o.SetOwnerReferences(f.references())
	return o
}

func (f Facts) references() []metav1.OwnerReference {
	if f.Package.UID == "" {
		return []metav1.OwnerReference{f.Revision.reference(true)}
	}
	return []metav1.OwnerReference{f.Revision.reference(true), f.Package.reference(false)}
}

func merged(one, other map[string]string) map[string]string {
	if len(one)+len(other) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, m := range []map[string]string{one, other} {
		for key, value := range m {
			out[key] = value
		}
	}
	return out
}

// owners are the owners that an object has to have: those that it has, with the revision as the controller.
func (f Facts) owners(live *unstructured.Unstructured) (out []metav1.OwnerReference, refusal string) {
	has := map[types.UID]bool{}
	for _, r := range live.GetOwnerReferences() {
		has[r.UID] = true
		switch {
		case r.UID == f.Revision.UID:
			r = f.Revision.reference(true)
		case r.UID == f.Package.UID:
			r = f.Package.reference(false)
		case r.Controller != nil && *r.Controller:
			if !f.Replaceable(r) {
				return nil, fmt.Sprintf("%s is already controlled by %s %s", describe(live), r.Kind, r.Name)
			}
			r.Controller = new(bool)
		}
		out = append(out, r)
	}
	for _, r := range f.references() {
		if !has[r.UID] {
			out = append(out, r)
		}
	}
	return out, ""
}

// Released returns the owners of an object without its controller, if that is the revision; ok is false if it is not.
func Released(live *unstructured.Unstructured, revision types.UID) (out []metav1.OwnerReference, ok bool) {
	for _, r := range live.GetOwnerReferences() {
		if r.UID == revision && r.Controller != nil && *r.Controller {
			r.Controller, ok = new(bool), true
		}
		out = append(out, r)
	}
	return out, ok
}

func equal(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && a.Kind == b.Kind && a.Name == b.Name && a.APIVersion == b.APIVersion && is(a.Controller) == is(b.Controller) &&
		is(a.BlockOwnerDeletion) == is(b.BlockOwnerDeletion)
}

func is(b *bool) bool { return b != nil && *b }

func describe(o *unstructured.Unstructured) string {
	return strings.TrimSpace(o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/"))
}
