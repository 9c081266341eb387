// Package usage decides what follows from Usages and ClusterUsages: who uses what, what
// to say of that, and what to do next about a Usage itself. Nothing here acts.
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

// Kinds are the kinds of usages. The last is an older spelling.
var Kinds = []schema.GroupVersionKind{
	v1beta1.GroupVersion.WithKind(v1beta1.UsageKind),
	v1beta1.GroupVersion.WithKind(v1beta1.ClusterUsageKind),
	legacy.GroupVersion.WithKind(legacy.UsageKind),
}

// Is says whether an object is a usage.
func Is(o *unstructured.Unstructured) bool {
	return IsKind(o.GroupVersionKind().GroupKind())
}

// IsKind says whether a kind is one of usages.
func IsKind(gk schema.GroupKind) bool {
	return slices.ContainsFunc(Kinds, func(kind schema.GroupVersionKind) bool { return kind.GroupKind() == gk })
}

// Ref names an object as a usage does: its namespace is the usage's own where none is
// said, also of a kind that has none.
type Ref struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
}

// Is says whether an object of this key is meant.
func (r Ref) Is(k object.Key) bool {
	return r.Name != "" && k.Name == r.Name && k.GroupKind() == r.Kind.GroupKind() && (k.Namespace == "" || k.Namespace == r.Namespace)
}

// String is how messages name it.
func (r Ref) String() string { return r.Kind.Kind + " " + r.Name }

// Party is one of the two that a usage is about, as it is written down.
type Party struct {
	Ref
	// Selector finds the object as long as it isn't named.
	Selector *Selector
}

// Selector finds an object by its labels, in the namespace of the Party, and by who
// controls it.
type Selector struct {
	Labels map[string]string
	// Sibling asks for one with the same controller as the usage's.
	Sibling bool
}

// Kin is how the two that a usage is about belong together as an instance and a part of
// it, directly or by instances in between.
type Kin string

// The ways.
const (
	// Apart: neither is a part of the other, as far as is known.
	Apart Kin = ""
	// UserAbove: what is used is a part of what uses it, which is being deleted. Who uses
	// it goes last, so that it can't be waited for.
	UserAbove Kin = "UserAbove"
	// UserBelow: what uses it is a part of what is used, and so goes before it anyway.
	UserBelow Kin = "UserBelow"
)

// Use is a usage as those see it whom it keeps.
type Use struct {
	// Usage names the usage itself.
	Usage object.Key
	UID   types.UID
	Of    Party
	// By is who uses it; nil if nobody does, and it is kept for a reason.
	By *Party
	// ByUID is the incarnation that the usage goes with, once that is known.
	ByUID  types.UID
	Reason string
	Replay bool
	// Deleting says that the usage is being deleted.
	Deleting bool
	// Leaving says that nothing keeps the usage any more: it is being taken off.
	Leaving bool
	Kin     Kin
}

// Read reads a usage. What can't be read keeps nothing.
func Read(o *unstructured.Unstructured) (Use, bool) {
	if !Is(o) {
		return Use{}, false
	}
	raw, _, _ := unstructured.NestedMap(o.Object, "spec")
	var spec v1beta1.UsageSpec // the other kinds' has a part of its fields
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec); err != nil {
		return Use{}, false
	}
	u := Use{Usage: object.KeyOf(o), UID: o.GetUID(), Deleting: o.GetDeletionTimestamp() != nil}
	u.Of = used(spec.Of, o.GetNamespace())
	if spec.By != nil {
		by := using(*spec.By, o.GetNamespace())
		u.By = &by
		if uid, told := strings.CutPrefix(o.GetAnnotations()[v1beta1.UserAnnotation], u.UserAnnotation("")); told {
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
func (u Use) UserAnnotation(uid types.UID) string {
	return u.By.Kind.GroupKind().String() + "/" + u.By.Name + "/" + string(uid)
}

// OwnerUID is the UID of the user according to the owner references; empty if there is none.
func (u Use) OwnerUID(usage *unstructured.Unstructured) (uid types.UID) {
	for _, owner := range usage.GetOwnerReferences() {
		if u.By.Name == owner.Name && u.By.Kind.GroupKind() == schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() {
			uid = owner.UID
		}
	}
	return uid
}

func used(r v1beta1.NamespacedResource, namespace string) Party {
	p := Party{Ref: Ref{Kind: schema.FromAPIVersionAndKind(r.APIVersion, r.Kind), Namespace: namespace}}
	if s := r.ResourceSelector; s != nil {
		p.Selector = &Selector{Labels: s.MatchLabels, Sibling: s.MatchControllerRef != nil && *s.MatchControllerRef}
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

func using(r v1beta1.Resource, namespace string) Party {
	p := Party{Ref: Ref{Kind: schema.FromAPIVersionAndKind(r.APIVersion, r.Kind), Namespace: namespace}}
	if s := r.ResourceSelector; s != nil {
		p.Selector = &Selector{Labels: s.MatchLabels, Sibling: s.MatchControllerRef != nil && *s.MatchControllerRef}
	}
	if r.ResourceRef != nil {
		p.Name = r.ResourceRef.Name
	}
	return p
}

// Holds says whether the usage keeps what it is of from being deleted.
func (u Use) Holds() bool { return u.Kin != UserBelow }

// UsedBy says whether an object of this key is who uses it.
func (u Use) UsedBy(k object.Key) bool { return u.By != nil && u.By.Is(k) }

// String tells of a usage: by whom, why, and which it is.
func (u Use) String() string {
	text := "in use"
	if u.By != nil {
		text += " by " + u.By.String()
	}
	if u.Reason != "" {
		text += ": " + u.Reason
	}
	return text + " (" + u.Usage.String() + ")"
}

// Message tells why an object stays. One of the usages is told, and how many more there
// are.
func Message(uses []Use) string {
	if len(uses) == 0 {
		return ""
	}
	first := slices.MinFunc(uses, compare)
	text := first.String()
	if n := len(uses) - 1; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	if first.By != nil {
		return text + "; it goes when that has gone, or its usage"
	}
	return text + "; it goes when the usage has gone"
}

// compare puts those first that somebody has to see to: those that have a reason, and
// aren't on their way.
func compare(a, b Use) int {
	order := func(u Use) int {
		switch {
		case u.Deleting:
			return 2
		case u.By != nil:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(order(a), order(b)), a.Usage.Compare(b.Usage), cmp.Compare(a.UID, b.UID))
}

// Details is what a usage is about, in a line.
func (u Use) Details() string {
	switch {
	case u.Reason != "":
		return u.Reason
	case u.By == nil:
		return "undefined"
	}
	text := fmt.Sprintf("%s/%s uses %s/%s", u.By.Kind.Kind, u.By.Name, u.Of.Kind.Kind, u.Of.Name)
	if u.Of.Namespace != u.Usage.Namespace {
		text += " in namespace " + u.Of.Namespace
	}
	return text
}
