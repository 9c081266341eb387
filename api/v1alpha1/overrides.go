package v1alpha1

// InstanceOverrides says which annotations of an instance take precedence over its definition.
// Others are ignored, and the instance's condition OverridesIgnored names them.
type InstanceOverrides struct {
	// DeletionPolicy is which values of the annotation espalier.dev/deletion-policy apply:
	// None; Preserve, the default, those that preserve an object at least as well as the
	// deletionPolicy of its node, in the order Delete, Orphan, Retain; or All.
	//
	// +optional
	// +kubebuilder:validation:Enum=None;Preserve;All
	DeletionPolicy DeletionPolicyOverride `json:"deletionPolicy,omitempty"`

	// ForceDelete is whether the annotations espalier.dev/force-delete and
	// espalier.dev/force-after apply, by which a deletion leaves objects behind: Allow, the
	// default, or Deny.
	//
	// +optional
	// +kubebuilder:validation:Enum=Allow;Deny
	ForceDelete OverrideAccess `json:"forceDelete,omitempty"`

	// Revision is whether the annotation espalier.dev/revision applies, which selects the
	// revision that composes the instance: Allow, or Deny, the default.
	//
	// +optional
	// +kubebuilder:validation:Enum=Allow;Deny
	Revision OverrideAccess `json:"revision,omitempty"`
}

// DeletionPolicyOverride is which deletion policies of an instance apply.
type DeletionPolicyOverride string

// Overrides of deletion policies.
const (
	// OverrideNone ignores them all.
	OverrideNone DeletionPolicyOverride = "None"
	// OverridePreserve applies the policies that preserve an object at least as well as the definition's.
	OverridePreserve DeletionPolicyOverride = "Preserve"
	// OverrideAll applies them all: an instance can delete what its definition preserves.
	OverrideAll DeletionPolicyOverride = "All"
)

// OverrideAccess is whether an annotation of an instance applies.
type OverrideAccess string

// Access of instances.
const (
	OverrideAllow OverrideAccess = "Allow"
	OverrideDeny  OverrideAccess = "Deny"
)

// InstanceOverridesAnnotation is on a CompositeResourceDefinition: which annotations of its
// composites and claims take precedence, such as "deletionPolicy=None, forceDelete=Deny".
const InstanceOverridesAnnotation = "espalier.dev/instance-overrides"
