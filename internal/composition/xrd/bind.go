package xrd

import (
	"maps"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
)

// Policy says whether the composite of a claim is to follow new revisions: as the claim
// says, or, where that says nothing, as the composite does now.
func Policy(claim, composite Instance) v1.UpdatePolicy {
	if claim.text(claim.places.CompositionUpdatePolicy) != "" {
		return claim.UpdatePolicy()
	}
	return composite.UpdatePolicy()
}

// SpecFromClaim is the spec that a claim gives its composite: the author's fields, and
// the claim's choice of a composition. The revision is the claim's to choose only while
// the composite is to follow none by itself. What is of the claim alone stays with it, and
// the composite says whose it is.
//
// The result shares what it has with the claim.
func SpecFromClaim(claim, composite Instance) map[string]any {
	own := compositeSpec(v1.LegacyClusterScope, nil) // for which a claim may have room, but no say
	maps.Copy(own, claimSpec(nil))
	for name := range choosing() {
		delete(own, name)
	}
	out := map[string]any{}
	spec, _ := claim.object.Object["spec"].(map[string]any)
	for name, value := range spec {
		if _, stays := own[name]; !stays {
			out[name] = value
		}
	}
	if Policy(claim, composite) != v1.UpdateManual {
		delete(out, "compositionRevisionRef")
	}
	o := claim.object
	out["claimRef"] = map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "namespace": o.GetNamespace(), "name": o.GetName()}
	return out
}

// StatusForClaim is the part of a composite's status that its claim shows: the author's
// fields. Conditions and the like are each's own.
//
// The result shares what it has with the composite.
func StatusForClaim(composite Instance, d *v1.CompositeResourceDefinition) map[string]any {
	status, _ := composite.object.Object["status"].(map[string]any)
	return AuthorStatus(status, d)
}

// AuthorStatus is the author's part of the status of a composite. It shares what it has
// with the whole, but can be added to.
func AuthorStatus(status map[string]any, d *v1.CompositeResourceDefinition) map[string]any {
	out := map[string]any{}
	maps.Copy(out, status)
	for name := range compositeStatus(d.ScopeOrDefault()) {
		delete(out, name)
	}
	for name := range progress(Room(d)) {
		delete(out, name)
	}
	return out
}
