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

// Policies are the deletion policies of an instance's children: what happens to a child that is
// no longer desired.
type Policies struct {
	// all and byNode are set by the instance's own annotation, definition by its definition, and
	// overrides says which of the former apply.
	all        v1alpha1.DeletionPolicy
	byNode     map[string]v1alpha1.DeletionPolicy
	definition map[string]v1alpha1.DeletionPolicy
	overrides  Overrides
}

// PoliciesOf reads the policies that an instance's annotation sets, and adds those of its definition. Problems lists
// invalid parts of the annotation: nothing must be deleted then, because it may be meant to be kept. An annotation that
// is not allowed is not read.
func PoliciesOf(instance *unstructured.Unstructured, defaults Defaults) (Policies, diag.List) {
	p := Policies{byNode: map[string]v1alpha1.DeletionPolicy{}, definition: defaults.OnDelete, overrides: defaults.Overrides}
	var problems diag.List
	if p.overrides.DeletionPolicy == v1alpha1.OverrideNone {
		return p, nil
	}
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
			problems.Addf("metadata.annotations", "%s has %q; it can be Delete, Orphan or Retain, or node=Policy, with commas",
				v1alpha1.DeletionPolicyAnnotation, diag.Truncate(strings.TrimSpace(part), 40))
		case single:
			p.byNode[node] = policy
		default:
			p.all = policy
		}
	}
	return p, problems
}

// WithDefinition adds the policies of the current definition, for the nodes that it has; they override the policies of
// the defaults.
func (p Policies) WithDefinition(definition map[string]v1alpha1.DeletionPolicy) Policies {
	p.definition = maps.Clone(p.definition)
	if p.definition == nil {
		p.definition = map[string]v1alpha1.DeletionPolicy{}
	}
	maps.Copy(p.definition, definition)
	return p
}

// Of is the policy of a child: the one that its instance sets for its node, or for all, if that is allowed; else Retain
// if a former instance retained it; else the policy of the definition, or the one that was recorded when the child was
// last applied.
func (p Policies) Of(child *unstructured.Unstructured) v1alpha1.DeletionPolicy {
	return p.At(PlaceOf(child), child)
}

// At is Of for a child with a known place.
func (p Policies) At(at Place, child *unstructured.Unstructured) v1alpha1.DeletionPolicy {
	var retained v1alpha1.DeletionPolicy
	if IsRetained(child) {
		retained = v1alpha1.DeletionRetain
	}
	return cmp.Or(p.allowed(at), retained, p.ofDefinition(at))
}

// Declared is the policy that instance and definition set for a place, whatever a former
// instance did.
func (p Policies) Declared(at Place) v1alpha1.DeletionPolicy {
	return cmp.Or(p.allowed(at), p.ofDefinition(at))
}

// It is empty for none.
func (p Policies) set(node string) v1alpha1.DeletionPolicy { return cmp.Or(p.byNode[node], p.all) }

// It is empty if the policy is not allowed.
func (p Policies) allowed(at Place) v1alpha1.DeletionPolicy {
	if set := p.set(at.Node); set != "" && p.overrides.allowsPolicy(set, p.ofDefinition(at)) {
		return set
	}
	return ""
}

func (p Policies) ofDefinition(at Place) v1alpha1.DeletionPolicy {
	return cmp.Or(p.definition[at.Node], at.OnDelete, v1alpha1.DeletionDelete)
}

// Forced names the blockers that an instance's deletion must not wait for.
type Forced struct{ names []string }

// ForcedOf reads them from the instance's annotation, if that is allowed.
func ForcedOf(instance *unstructured.Unstructured, overrides Overrides) Forced {
	if !overrides.AllowsForceDelete() {
		return Forced{}
	}
	return Forced{splitList(instance.GetAnnotations()[v1alpha1.ForceDeleteAnnotation])}
}

// Matches reports whether a blocker is named: by the id of its node, by "Kind/name", by its kind alone if a whole kind
// blocks, or by "all".
func (f Forced) Matches(node, kind, name string) bool {
	return slices.ContainsFunc(f.names, func(forced string) bool {
		return forced == "all" || (node != "" && forced == node) || (name != "" && forced == kind+"/"+name) || (name == "" && forced == kind)
	})
}

// Protection reports whether an object carries the protect annotation, and why.
func Protection(o *unstructured.Unstructured) (reason string, protected bool) {
	reason, protected = textOf(o, "annotations", v1alpha1.ProtectAnnotation)
	return strings.TrimSpace(reason), protected
}
