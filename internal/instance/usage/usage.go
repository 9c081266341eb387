// Package usage reads Usages and ClusterUsages and decides which objects they protect, with the
// message to report.
// See docs/design/0014-usages.md.
//
// Pure: it decides from values alone.
package usage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	legacy "github.com/espalier-dev/espalier/api/apiextensions/v1beta1"
	"github.com/espalier-dev/espalier/api/protection/v1beta1"
	"github.com/espalier-dev/espalier/internal/object"
)

// Kinds are the kinds of usages. The last is a legacy one.
var Kinds = []schema.GroupVersionKind{
	v1beta1.GroupVersion.WithKind(v1beta1.UsageKind),
	v1beta1.GroupVersion.WithKind(v1beta1.ClusterUsageKind),
	legacy.GroupVersion.WithKind(legacy.UsageKind),
}

// Is reports whether an object is a usage.
func Is(o *unstructured.Unstructured) bool {
	return IsKind(o.GroupVersionKind().GroupKind())
}

// IsKind reports whether a kind is one of usages.
func IsKind(gk schema.GroupKind) bool {
	return slices.ContainsFunc(Kinds, func(kind schema.GroupVersionKind) bool { return kind.GroupKind() == gk })
}

// Ref identifies an object as a usage does. Without a namespace in the reference, it is in the usage's.
type Ref struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
}

// Is reports whether the Ref identifies the object of this key.
func (r Ref) Is(k object.Key) bool { return r.Name != "" && k == r.Key() }

// Key is the key of the object.
func (r Ref) Key() object.Key {
	return object.Key{Group: r.Kind.Group, Kind: r.Kind.Kind, Namespace: r.Namespace, Name: r.Name}
}

// String is how messages name it.
func (r Ref) String() string { return r.Kind.Kind + " " + r.Name }

// Resource is the used object or its user, as the usage's spec has it.
type Resource struct {
	Ref
	// Selector selects the object as long as it has no name.
	Selector *Selector
}

// Selector selects an object by its labels, in the namespace of the Resource, and by its
// controller.
type Selector struct {
	Labels map[string]string
	// MatchControllerRef selects an object with the same controller as the usage.
	MatchControllerRef bool
}

// Relation is how the used object and its user are related as an instance and its child,
// directly or through nested instances.
type Relation string

// Relations.
const (
	// Unrelated: neither is a child of the other, as far as is known.
	Unrelated Relation = ""
	// UserIsAncestor: the used object is a child of the user, which is being deleted. The user is removed last, so the
	// usage must not wait for it.
	UserIsAncestor Relation = "UserAbove"
	// UserIsDescendant: the user is a child of the used object, and so is deleted before it
	// anyway.
	UserIsDescendant Relation = "UserBelow"
)

// Usage is a usage with all that decides whether it blocks a deletion.
type Usage struct {
	// Key is the key of the usage itself.
	Key object.Key
	UID types.UID
	Of  Resource
	// By is the user; nil if there is none: then the usage protects the object for Reason.
	By *Resource
	// ByUID is the UID of the user, once it is known: the usage is deleted with it.
	ByUID  types.UID
	Reason string
	Replay bool
	// Deleting says that the usage is being deleted.
	Deleting bool
	// Released says that nothing keeps the usage any more: its finalizer is being removed.
	Released bool
	Relation Relation
}

// Read reads a usage. A malformed one protects nothing.
func Read(o *unstructured.Unstructured) (Usage, bool) {
	if !Is(o) {
		return Usage{}, false
	}
	raw, _, _ := unstructured.NestedMap(o.Object, "spec")
	var spec v1beta1.UsageSpec // the other kinds' has a part of its fields
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec); err != nil {
		return Usage{}, false
	}
	u := Usage{Key: object.KeyOf(o), UID: o.GetUID(), Deleting: o.GetDeletionTimestamp() != nil}
	u.Of = parseOf(spec.Of, o.GetNamespace())
	if spec.By != nil {
		by := parseBy(*spec.By, o.GetNamespace())
		u.By = &by
		if uid, found := strings.CutPrefix(o.GetAnnotations()[v1beta1.UserAnnotation], u.UserAnnotation("")); found {
			u.ByUID = types.UID(uid)
		} else {
			u.ByUID = u.OwnerUID(o)
		}
	}
	if spec.Reason != nil {
		u.Reason = *spec.Reason
	}
	u.Replay = spec.ReplayDeletion != nil && *spec.ReplayDeletion
	return u, true
}

// UserAnnotation is the value of the annotation that names the user with its UID.
func (u Usage) UserAnnotation(uid types.UID) string {
	return u.By.Kind.GroupKind().String() + "/" + u.By.Name + "/" + string(uid)
}

// OwnerUID is the UID of the user according to the owner references; empty if there is none.
func (u Usage) OwnerUID(usage *unstructured.Unstructured) (uid types.UID) {
	for _, owner := range usage.GetOwnerReferences() {
		if u.By.Name == owner.Name && u.By.Kind.GroupKind() == schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() {
			uid = owner.UID
		}
	}
	return uid
}

func parseOf(r v1beta1.NamespacedResource, namespace string) Resource {
	p := Resource{Ref: Ref{Kind: schema.FromAPIVersionAndKind(r.APIVersion, r.Kind), Namespace: namespace}}
	if s := r.ResourceSelector; s != nil {
		p.Selector = &Selector{Labels: s.MatchLabels, MatchControllerRef: s.MatchControllerRef != nil && *s.MatchControllerRef}
		if s.Namespace != nil && *s.Namespace != "" {
			p.Namespace = *s.Namespace
		}
	}
	if r.ResourceRef != nil {
		p.Name = r.ResourceRef.Name
		if ns := r.ResourceRef.Namespace; ns != nil && *ns != "" {
			p.Namespace = *ns
		}
	}
	return p
}

func parseBy(r v1beta1.Resource, namespace string) Resource {
	p := Resource{Ref: Ref{Kind: schema.FromAPIVersionAndKind(r.APIVersion, r.Kind), Namespace: namespace}}
	if s := r.ResourceSelector; s != nil {
		p.Selector = &Selector{Labels: s.MatchLabels, MatchControllerRef: s.MatchControllerRef != nil && *s.MatchControllerRef}
	}
	if r.ResourceRef != nil {
		p.Name = r.ResourceRef.Name
	}
	return p
}

// Blocks reports whether the usage blocks the deletion of the used object.
func (u Usage) Blocks() bool { return u.Relation != UserIsDescendant }

// Uses reports whether the usage is about the object of this key, and may be: a user who can create a Usage in a
// namespace has no say on objects of other namespaces.
func (u Usage) Uses(k object.Key) bool { return !u.IsOfOtherNamespace() && u.Of.Is(k) }

// IsOfOtherNamespace reports whether a namespaced usage names an object of another namespace. It protects nothing.
func (u Usage) IsOfOtherNamespace() bool {
	return u.Key.Namespace != "" && u.Of.Namespace != u.Key.Namespace
}

// UsedBy reports whether the object of this key is the user.
func (u Usage) UsedBy(k object.Key) bool { return u.By != nil && u.By.Is(k) }

// String describes the usage: the user, the reason, and its key.
func (u Usage) String() string {
	text := "in use"
	if u.By != nil {
		text += " by " + u.By.String()
	}
	if u.Reason != "" {
		text += ": " + u.Reason
	}
	return text + " (" + u.Key.String() + ")"
}

// Message says why an object is kept. It describes one of the usages and counts the rest.
func Message(uses []Usage) string { return message(uses, "it is deleted once ") }

// Refusal is Message for a deletion that is refused, and neither pending nor replayed later.
func Refusal(uses []Usage) string { return message(uses, "delete it again once ") }

// message ends with what happens, or what to do, once the object is no longer in use.
func message(uses []Usage, then string) string {
	if len(uses) == 0 {
		return ""
	}
	first := slices.MinFunc(uses, compare)
	text := first.String()
	if n := len(uses) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	text += "; " + then
	if first.By != nil {
		return text + "that or the usage is gone"
	}
	return text + "the usage is gone"
}

// compare sorts usages for messages: those that need an action of a user first, which have a
// reason and aren't being deleted.
func compare(a, b Usage) int {
	order := func(u Usage) int {
		switch {
		case u.Deleting:
			return 2
		case u.By != nil:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(order(a), order(b)), a.Key.Compare(b.Key), cmp.Compare(a.UID, b.UID))
}

// Details describes the usage in a line.
func (u Usage) Details() string {
	switch {
	case u.Reason != "":
		return u.Reason
	case u.By == nil:
		return "undefined"
	}
	return fmt.Sprintf("%s/%s uses %s/%s", u.By.Kind.Kind, u.By.Name, u.Of.Kind.Kind, u.Of.Name)
}
