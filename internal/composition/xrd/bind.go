package xrd

import (
	"maps"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
)

// EffectiveUpdatePolicy is the update policy of a claim's composite: the claim's, or the
// composite's if the claim sets none.
func EffectiveUpdatePolicy(claim, composite Instance) v1.UpdatePolicy {
	if claim.stringAt(claim.layout.CompositionUpdatePolicy) != "" {
		return claim.UpdatePolicy()
	}
	return composite.UpdatePolicy()
}

// SpecFromClaim is the desired spec of a claim's composite: the author's fields, the claim's
// selection of a composition, and claimRef. The claim selects the revision only if the
// update policy is Manual. Fields that only claims have are left out.
//
// The result shares its values with the claim.
func SpecFromClaim(claim, composite Instance) map[string]any {
	own := compositeSpecSchemas(v1.LegacyClusterScope, nil) // an author's claim schema may have such fields; they are ignored
	maps.Copy(own, claimSpecSchemas(nil))
	for name := range selectionSchemas() {
		delete(own, name)
	}
	out := map[string]any{}
	spec, _ := claim.object.Object["spec"].(map[string]any)
	for name, value := range spec {
		if _, stays := own[name]; !stays {
			out[name] = value
		}
	}
	if EffectiveUpdatePolicy(claim, composite) != v1.UpdateManual {
		delete(out, "compositionRevisionRef")
	}
	o := claim.object
	out["claimRef"] = map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "namespace": o.GetNamespace(), "name": o.GetName()}
	return out
}

// StatusForClaim is the part of a composite's status that its claim shows: the author's
// fields. Conditions and Crossplane's other fields are left out.
//
// The result shares its values with the composite.
func StatusForClaim(composite Instance, d *v1.CompositeResourceDefinition) map[string]any {
	status, _ := composite.object.Object["status"].(map[string]any)
	return AuthorStatus(status, d)
}

// AuthorStatus is the author's part of the status of a composite. It is a shallow copy:
// fields can be added to it.
func AuthorStatus(status map[string]any, d *v1.CompositeResourceDefinition) map[string]any {
	out := map[string]any{}
	maps.Copy(out, status)
	for name := range compositeStatusSchemas(d.ScopeOrDefault()) {
		delete(out, name)
	}
	for name := range progressSchemas(UndeclaredStatusFields(d)) {
		delete(out, name)
	}
	return out
}
