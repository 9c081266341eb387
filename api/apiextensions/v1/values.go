package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Scope says where composites live and how they are laid out.
type Scope string

// Scopes of composites.
const (
	NamespacedScope    Scope = "Namespaced"
	ClusterScope       Scope = "Cluster"
	LegacyClusterScope Scope = "LegacyCluster"
)

// UpdatePolicy says whether a composite follows new revisions of its composition.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type UpdatePolicy string

// Policies for new revisions.
const (
	UpdateAutomatic UpdatePolicy = "Automatic"
	UpdateManual    UpdatePolicy = "Manual"
)

// DeletePolicy says whether a claim waits until its composite is gone.
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
	// OpenAPIV3Schema has whatever is written: it is looked at when the kind is made.
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

// DefinitionStatus is what became of a definition.
type DefinitionStatus struct {
	// Conditions are Established and, where composites can be claimed, Offered.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`

	// Controllers tell which kinds are being reconciled.
	Controllers DefinitionControllers `json:"controllers,omitempty"`
}

// DefinitionControllers are the kinds that are reconciled for a definition, each in
// the version in which that is done.
type DefinitionControllers struct {
	// CompositeResourceType is the composite kind.
	CompositeResourceType TypeReference `json:"compositeResourceType,omitempty"`
	// CompositeResourceClaimType is the kind that claims composites.
	CompositeResourceClaimType TypeReference `json:"compositeResourceClaimType,omitempty"`
}

// Referenceable is the name of the version that compositions are for; "" if none is.
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

// ClaimKind is the kind that claims composites, in its referenceable version, if
// there is one.
func (d *CompositeResourceDefinition) ClaimKind() (kind schema.GroupVersionKind, offered bool) {
	if d.Spec.ClaimNames == nil {
		return schema.GroupVersionKind{}, false
	}
	return schema.GroupVersionKind{Group: d.Spec.Group, Version: d.Referenceable(), Kind: d.Spec.ClaimNames.Kind}, true
}

// ScopeOrDefault is the scope, with what this version takes for one that isn't said.
func (d *CompositeResourceDefinition) ScopeOrDefault() Scope {
	if d.Spec.Scope == "" {
		return LegacyClusterScope
	}
	return d.Spec.Scope
}
