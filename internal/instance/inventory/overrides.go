package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Overrides says which annotations of an instance take precedence over its definition. It is
// comparable: an empty field is the default, and no field has the default spelled out.
type Overrides struct {
	DeletionPolicy        v1alpha1.DeletionPolicyOverride
	ForceDelete, Revision v1alpha1.OverrideAccess
}

// OverridesOf returns the settings of a definition; nil is for the defaults. CheckOverrides
// reports invalid values; here they count as the default.
func OverridesOf(spec *v1alpha1.InstanceOverrides) Overrides {
	var o Overrides
	if spec == nil {
		return o
	}
	if spec.DeletionPolicy == v1alpha1.OverrideNone || spec.DeletionPolicy == v1alpha1.OverrideAll {
		o.DeletionPolicy = spec.DeletionPolicy
	}
	if spec.ForceDelete == v1alpha1.OverrideDeny {
		o.ForceDelete = spec.ForceDelete
	}
	if spec.Revision == v1alpha1.OverrideAllow {
		o.Revision = spec.Revision
	}
	return o
}

// CheckOverrides lists the invalid values of the settings of a definition, which are at a path.
func CheckOverrides(spec *v1alpha1.InstanceOverrides, at object.Path) (problems diag.List) {
	if spec == nil {
		return nil
	}
	switch spec.DeletionPolicy {
	case "", v1alpha1.OverrideNone, v1alpha1.OverridePreserve, v1alpha1.OverrideAll:
	default:
		problems.Addf(at.Field(deletionPolicyKey), "is %q; it can be None, Preserve or All", spec.DeletionPolicy)
	}
	for field, access := range map[string]v1alpha1.OverrideAccess{forceDeleteKey: spec.ForceDelete, revisionKey: spec.Revision} {
		if access != "" && access != v1alpha1.OverrideAllow && access != v1alpha1.OverrideDeny {
			problems.Addf(at.Field(field), "is %q; it can be Allow or Deny", access)
		}
	}
	return problems.Sorted()
}

// The names of the fields, in the definition and in annotations.
const (
	deletionPolicyKey = "deletionPolicy"
	forceDeleteKey    = "forceDelete"
	revisionKey       = "revision"
)

// ParseOverrides reads the settings of a CompositeResourceDefinition from its annotation, such as
// "deletionPolicy=None, forceDelete=Deny". A part that is invalid is a problem, and ignored.
// Composites select their revisions by fields, which are Crossplane's.
func ParseOverrides(text string) (Overrides, diag.List) {
	const at = object.Path("metadata.annotations")
	var spec v1alpha1.InstanceOverrides
	var problems diag.List
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case deletionPolicyKey:
			spec.DeletionPolicy = v1alpha1.DeletionPolicyOverride(value)
		case forceDeleteKey:
			spec.ForceDelete = v1alpha1.OverrideAccess(value)
		default:
			problems.Addf(at, "%s has %q; it can have deletionPolicy= and forceDelete=, with a comma", v1alpha1.InstanceOverridesAnnotation,
				diag.Truncate(strings.TrimSpace(part), 40))
		}
	}
	problems.Add(CheckOverrides(&spec, at.Field(v1alpha1.InstanceOverridesAnnotation))...)
	return OverridesOf(&spec), problems.Sorted()
}

// AllowsForceDelete reports whether an instance may have objects left behind.
func (o Overrides) AllowsForceDelete() bool { return o.ForceDelete != v1alpha1.OverrideDeny }

// AllowsRevision reports whether an instance may select its revision.
func (o Overrides) AllowsRevision() bool { return o.Revision == v1alpha1.OverrideAllow }

func (o Overrides) allowsPolicy(instance, definition v1alpha1.DeletionPolicy) bool {
	switch o.DeletionPolicy {
	case v1alpha1.OverrideNone:
		return false
	case v1alpha1.OverrideAll:
		return true
	default:
		return slices.Index(preserving, instance) >= slices.Index(preserving, definition)
	}
}

// preserving lists the policies so that each preserves more of an object than the one before: whether it exists, and
// then whether it belongs to the instance's successors.
var preserving = []v1alpha1.DeletionPolicy{v1alpha1.DeletionDelete, v1alpha1.DeletionOrphan, v1alpha1.DeletionRetain}

// These settings apply while the definition isn't known: a user who can write the instance may have changed the
// recorded ones. They never let it delete what the definition preserves.
func (o Overrides) withoutDefinition() Overrides {
	if o.DeletionPolicy == v1alpha1.OverrideAll {
		o.DeletionPolicy = ""
	}
	return o
}

// text is how the settings for a deletion are recorded: "deletionPolicy:None;forceDelete:Deny",
// empty for the defaults.
func (o Overrides) text() string {
	var parts []string
	if o.DeletionPolicy != "" {
		parts = append(parts, deletionPolicyKey+":"+string(o.DeletionPolicy))
	}
	if o.ForceDelete != "" {
		parts = append(parts, forceDeleteKey+":"+string(o.ForceDelete))
	}
	return strings.Join(parts, ";")
}

func readOverrides(text string) Overrides {
	var spec v1alpha1.InstanceOverrides
	for part := range strings.SplitSeq(text, ";") {
		switch key, value, _ := strings.Cut(part, ":"); key {
		case deletionPolicyKey:
			spec.DeletionPolicy = v1alpha1.DeletionPolicyOverride(value)
		case forceDeleteKey:
			spec.ForceDelete = v1alpha1.OverrideAccess(value)
		}
	}
	return OverridesOf(&spec)
}

// IgnoredOverrides lists the annotations of an instance that its definition does not allow, each with what the author
// can change. OnDelete holds the definition's policies of nodes, beside the policies of the defaults.
func IgnoredOverrides(instance *unstructured.Unstructured, defaults Defaults, onDelete map[string]v1alpha1.DeletionPolicy,
	by object.Definition) (out []string) {
	annotations := instance.GetAnnotations()
	ignored := func(annotation, nodes, field, values string) {
		out = append(out, fmt.Sprintf("%s is ignored%s: %s does not allow it; its author can, with %s", annotation, nodes, definitionText(by),
			settingText(by, field, values)))
	}
	if _, set := annotations[v1alpha1.DeletionPolicyAnnotation]; set {
		if defaults.Overrides.DeletionPolicy == v1alpha1.OverrideNone {
			ignored(v1alpha1.DeletionPolicyAnnotation, "", deletionPolicyKey, "Preserve or All")
		} else if nodes := ignoredPolicies(instance, defaults, onDelete); len(nodes) > 0 {
			ignored(v1alpha1.DeletionPolicyAnnotation, " for "+listNodes(nodes), deletionPolicyKey, "All")
		}
	}
	for _, annotation := range []string{v1alpha1.ForceAfterAnnotation, v1alpha1.ForceDeleteAnnotation} {
		if _, set := annotations[annotation]; set && !defaults.Overrides.AllowsForceDelete() {
			ignored(annotation, "", forceDeleteKey, "Allow")
		}
	}
	if _, set := annotations[v1alpha1.RevisionAnnotation]; set && by.Dialect == object.GraphDialect && !defaults.Overrides.AllowsRevision() {
		ignored(v1alpha1.RevisionAnnotation, "", revisionKey, "Allow")
	}
	return out
}

// The nodes are sorted.
func ignoredPolicies(instance *unstructured.Unstructured, defaults Defaults, onDelete map[string]v1alpha1.DeletionPolicy) (nodes []string) {
	policies, _ := PoliciesOf(instance, defaults)
	all := maps.Clone(onDelete)
	if all == nil {
		all = map[string]v1alpha1.DeletionPolicy{}
	}
	maps.Copy(all, defaults.OnDelete)
	for _, node := range slices.Sorted(maps.Keys(all)) {
		definition := cmp.Or(all[node], v1alpha1.DeletionDelete)
		if set := policies.set(node); set != "" && !defaults.Overrides.allowsPolicy(set, definition) {
			nodes = append(nodes, fmt.Sprintf("%s (%s instead of %s)", node, set, definition))
		}
	}
	return nodes
}

// maxIgnoredNodes bounds the nodes that a message names.
const maxIgnoredNodes = 5

func listNodes(nodes []string) string {
	more := ""
	if len(nodes) > maxIgnoredNodes {
		more = fmt.Sprintf(" and %d more", len(nodes)-maxIgnoredNodes)
		nodes = nodes[:maxIgnoredNodes]
	}
	return strings.Join(nodes, ", ") + more
}

func definitionText(by object.Definition) string {
	switch {
	case by.Dialect != object.GraphDialect:
		return "CompositeResourceDefinition " + by.Name
	case by.Namespace != "":
		return v1alpha1.ResourceGroupKind + " " + by.Namespace + "/" + by.Name
	}
	return v1alpha1.ResourceGraphDefinitionKind + " " + by.Name
}

func settingText(by object.Definition, field, values string) string {
	if by.Dialect != object.GraphDialect {
		return fmt.Sprintf("%s=%s in its annotation %s", field, values, v1alpha1.InstanceOverridesAnnotation)
	}
	return fmt.Sprintf("spec.instanceOverrides.%s: %s", field, values)
}
