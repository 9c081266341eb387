package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Scope is the scope of composites and the layout of their fields.
type Scope string

// Scopes of composites.
const (
	NamespacedScope    Scope = "Namespaced"
	ClusterScope       Scope = "Cluster"
	LegacyClusterScope Scope = "LegacyCluster"
)

// UpdatePolicy is whether a composite follows new revisions of its composition.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type UpdatePolicy string

// Policies for new revisions.
const (
	UpdateAutomatic UpdatePolicy = "Automatic"
	UpdateManual    UpdatePolicy = "Manual"
)

// DeletePolicy is whether a claim waits until its composite is gone.
//
// +kubebuilder:validation:Enum=Background;Foreground
type DeletePolicy string

// Policies for deleting a claim.
const (
	DeleteBackground DeletePolicy = "Background"
	DeleteForeground DeletePolicy = "Foreground"
)

// DefinitionSchema is a schema as an author writes it.
type DefinitionSchema struct {
	// OpenAPIV3Schema may be any object: it is validated when the kind is created.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	OpenAPIV3Schema runtime.RawExtension `json:"openAPIV3Schema,omitempty"`
}

// TypeReference names a kind in a version.
type TypeReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// TypeReferenceTo is the reference to a kind.
func TypeReferenceTo(kind schema.GroupVersionKind) TypeReference {
	return TypeReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}
}

// GroupVersionKind is the kind that is referred to.
func (r TypeReference) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
}

// SecretReference names a Secret.
type SecretReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// DefinitionStatus is the status of a definition.
type DefinitionStatus struct {
	// ObservedGeneration is the generation of the definition that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Established and, for definitions with claims, Offered.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`

	// Controllers are the kinds that are being reconciled.
	Controllers DefinitionControllers `json:"controllers,omitempty"`
}

// DefinitionControllers are the kinds that are reconciled for a definition, each with the
// version that the controllers use.
type DefinitionControllers struct {
	// CompositeResourceType is the composite kind.
	CompositeResourceType TypeReference `json:"compositeResourceType,omitempty"`
	// CompositeResourceClaimType is the kind of claims.
	CompositeResourceClaimType TypeReference `json:"compositeResourceClaimType,omitempty"`
}

// Referenceable returns the name of the referenceable version; empty if there is none.
func (d *CompositeResourceDefinition) Referenceable() string {
	for _, v := range d.Spec.Versions {
		if v.Referenceable {
			return v.Name
		}
	}
	return ""
}

// CompositeKind is the composite kind in its referenceable version.
func (d *CompositeResourceDefinition) CompositeKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: d.Spec.Group, Version: d.Referenceable(), Kind: d.Spec.Names.Kind}
}

// ClaimKind returns the kind of claims in its referenceable version; false if the definition
// has none.
func (d *CompositeResourceDefinition) ClaimKind() (kind schema.GroupVersionKind, offered bool) {
	if d.Spec.ClaimNames == nil {
		return schema.GroupVersionKind{}, false
	}
	return schema.GroupVersionKind{Group: d.Spec.Group, Version: d.Referenceable(), Kind: d.Spec.ClaimNames.Kind}, true
}

// ScopeOrDefault returns the scope or, if it is empty, the default of this version.
func (d *CompositeResourceDefinition) ScopeOrDefault() Scope {
	if d.Spec.Scope == "" {
		return LegacyClusterScope
	}
	return d.Spec.Scope
}
