package inventory

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Policies are what becomes of an instance's children when they aren't wanted any
// more.
type Policies struct {
	// all and byNode are the instance's own say, definition that of its definition.
	all        v1alpha1.DeletionPolicy
	byNode     map[string]v1alpha1.DeletionPolicy
	definition map[string]v1alpha1.DeletionPolicy
}

// PoliciesOf reads an instance's own say, and what its definition said when it
// last looked at it. What of its own say can't be read is told: nothing must be
// deleted then, since it may have been to stay.
func PoliciesOf(instance *unstructured.Unstructured) (Policies, diag.List) {
	p := Policies{byNode: map[string]v1alpha1.DeletionPolicy{}, definition: DefaultsOf(instance).OnDelete}
	var problems diag.List
	for part := range strings.SplitSeq(instance.GetAnnotations()[v1alpha1.DeletionPolicyAnnotation], ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		node, text, single := strings.Cut(part, "=")
		if !single {
			node, text = "", part
		}
		node = strings.TrimSpace(node)
		policy, known := v1alpha1.ParseDeletionPolicy(strings.TrimSpace(text))
		switch {
		case !known || (single && node == ""):
			problems.Addf("metadata.annotations", "%s has %q; it can be Delete, Orphan or Retain, or node=Policy, with commas", v1alpha1.DeletionPolicyAnnotation, diag.Cut(strings.TrimSpace(part), 40))
		case single:
			p.byNode[node] = policy
		default:
			p.all = policy
		}
	}
	return p, problems
}

// Now is what becomes of children when their definition, as it is, says so of the
// nodes that it has; it goes before what it said earlier.
func (p Policies) Now(definition map[string]v1alpha1.DeletionPolicy) Policies {
	p.definition = maps.Clone(p.definition)
	if p.definition == nil {
		p.definition = map[string]v1alpha1.DeletionPolicy{}
	}
	maps.Copy(p.definition, definition)
	return p
}

// Of says what becomes of a child: what its instance says of its node, or of all;
// or that a former instance has left it in place; or what the definition says, or
// said when the child was last applied.
func (p Policies) Of(child *unstructured.Unstructured) v1alpha1.DeletionPolicy {
	return p.At(PlaceOf(child), child)
}

// At is Of for a child whose place is known.
func (p Policies) At(at Place, child *unstructured.Unstructured) v1alpha1.DeletionPolicy {
	var retained v1alpha1.DeletionPolicy
	if IsRetained(child) {
		retained = v1alpha1.DeletionRetain
	}
	return cmp.Or(p.byNode[at.Node], p.all, retained, p.definition[at.Node], at.OnDelete, v1alpha1.DeletionDelete)
}

// Said is what instance and definition say becomes of what is at a place, whatever a
// former instance has said.
func (p Policies) Said(at Place) v1alpha1.DeletionPolicy {
	return cmp.Or(p.byNode[at.Node], p.all, p.definition[at.Node], at.OnDelete, v1alpha1.DeletionDelete)
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

// Protection says whether, and why, somebody has asked for an object to stay.
func Protection(o *unstructured.Unstructured) (reason string, protected bool) {
	reason, protected = o.GetAnnotations()[v1alpha1.ProtectAnnotation]
	return strings.TrimSpace(reason), protected
}
