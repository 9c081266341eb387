package inventory

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Policies are what becomes of an instance's children when they aren't wanted any
// more, as far as the instance itself says so.
type Policies struct {
	all    v1alpha1.DeletionPolicy
	byNode map[string]v1alpha1.DeletionPolicy
}

// PoliciesOf reads an instance's own say. A part that can't be read is told, and
// counts as not there.
func PoliciesOf(instance *unstructured.Unstructured) (Policies, diag.List) {
	p := Policies{byNode: map[string]v1alpha1.DeletionPolicy{}}
	var problems diag.List
	for _, part := range fields(instance.GetAnnotations()[v1alpha1.DeletionPolicyAnnotation]) {
		node, text, single := strings.Cut(part, "=")
		if !single {
			node, text = "", part
		}
		policy := v1alpha1.DeletionPolicy(text)
		switch {
		case !policy.Valid() || (single && node == ""):
			problems.Addf("metadata.annotations", "%s has %q; it can be Delete, Orphan or Retain, or node=Policy", v1alpha1.DeletionPolicyAnnotation, diag.Cut(part, 40))
		case single:
			p.byNode[node] = policy
		default:
			p.all = policy
		}
	}
	return p, problems
}

// Of says what becomes of a child: what its instance says of its node, or of all,
// or else what the definition said when the child was last applied.
func (p Policies) Of(child *unstructured.Unstructured) v1alpha1.DeletionPolicy {
	at := PlaceOf(child)
	for _, policy := range []v1alpha1.DeletionPolicy{p.byNode[at.Node], p.all, at.OnDelete} {
		if policy != "" {
			return policy
		}
	}
	return v1alpha1.DeletionDelete
}

// Forced is which blockers of its deletion an instance is asked to let go of.
type Forced struct{ names []string }

// ForcedOf reads whom an instance is asked to let go of.
func ForcedOf(instance *unstructured.Unstructured) Forced {
	return Forced{fields(instance.GetAnnotations()[v1alpha1.ForceDeleteAnnotation])}
}

// Names says whether a blocker is meant: by the id of its node, by "Kind/name",
// by its kind alone where a whole kind blocks, or because all are.
func (f Forced) Names(node, kind, name string) bool {
	return slices.ContainsFunc(f.names, func(asked string) bool {
		return asked == "all" || (node != "" && asked == node) || (name != "" && asked == kind+"/"+name) || (name == "" && asked == kind)
	})
}

// Any says whether there is anything to let go of.
func (f Forced) Any() bool { return len(f.names) > 0 }

// Protection says whether, and why, somebody has asked for an object to stay.
func Protection(o *unstructured.Unstructured) (reason string, protected bool) {
	reason, protected = o.GetAnnotations()[v1alpha1.ProtectAnnotation]
	return strings.TrimSpace(reason), protected
}
