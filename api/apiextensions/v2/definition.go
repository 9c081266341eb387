package v2

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
)

// CompositeResourceDefinition defines a kind whose objects are composed of others.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=crossplane,shortName=xrd;xrds
// +kubebuilder:printcolumn:name="ESTABLISHED",type="string",JSONPath=".status.conditions[?(@.type=='Established')].status"
// +kubebuilder:printcolumn:name="OFFERED",type="string",JSONPath=".status.conditions[?(@.type=='Offered')].status"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type CompositeResourceDefinition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec DefinitionSpec `json:"spec,omitempty"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status v1.DefinitionStatus `json:"status,omitempty"`
}

// CompositeResourceDefinitionList is a list of CompositeResourceDefinition.
//
// +kubebuilder:object:root=true
type CompositeResourceDefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CompositeResourceDefinition `json:"items"`
}

// DefinitionSpec is the spec of a definition. Its validation rules accept definitions that were
// created as v1, so that they can still be edited.
//
// +kubebuilder:validation:XValidation:rule="!has(self.claimNames) || self.scope == 'LegacyCluster'",message="Claims aren't supported in apiextensions.crossplane.io/v2"
// +kubebuilder:validation:XValidation:rule="!has(self.connectionSecretKeys) || self.scope == 'LegacyCluster'",message="XR connection secrets aren't supported in apiextensions.crossplane.io/v2"
type DefinitionSpec struct {
	// Group is the API group of the kind. The definition is named
	// <names.plural>.<group>.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	Group string `json:"group"`

	// Names are the names of the composite kind.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	// +kubebuilder:validation:XValidation:rule="self.plural == self.plural.lowerAscii()",message="Plural name must be lowercase"
	// +kubebuilder:validation:XValidation:rule="!has(self.singular) || self.singular == self.singular.lowerAscii()",message="Singular name must be lowercase"
	Names extv1.CustomResourceDefinitionNames `json:"names"`

	// Scope is the scope of composites.
	//
	// +kubebuilder:validation:Enum=Namespaced;Cluster
	// +kubebuilder:default=Namespaced
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	Scope v1.Scope `json:"scope,omitempty"`

	// DefaultCompositionRef names the composition of composites that neither name
	// nor select one.
	//
	// +optional
	DefaultCompositionRef *v1.CompositionReference `json:"defaultCompositionRef,omitempty"`

	// DefaultCompositionRevisionSelector selects the composition's revision for composites
	// without a selector.
	//
	// +optional
	DefaultCompositionRevisionSelector *metav1.LabelSelector `json:"defaultCompositionRevisionSelector,omitempty"`

	// EnforcedCompositionRef names the composition of all composites, also of those that
	// select another one.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	EnforcedCompositionRef *v1.CompositionReference `json:"enforcedCompositionRef,omitempty"`

	// DefaultCompositionUpdatePolicy is the policy of composites that set none.
	//
	// +optional
	// +kubebuilder:default=Automatic
	DefaultCompositionUpdatePolicy *v1.UpdatePolicy `json:"defaultCompositionUpdatePolicy,omitempty"`

	// Versions are the versions of the kind.
	Versions []v1.DefinitionVersion `json:"versions"`

	// Conversion is how objects are converted between versions.
	//
	// +optional
	Conversion *extv1.CustomResourceConversion `json:"conversion,omitempty"`

	// Metadata is added to the CustomResourceDefinition of the kind.
	//
	// +optional
	Metadata *v1.DefinitionMetadata `json:"metadata,omitempty"`

	// ClaimNames is set in definitions that were created as v1.
	//
	// Deprecated: composites of this version have no claims.
	//
	// +optional
	ClaimNames *extv1.CustomResourceDefinitionNames `json:"claimNames,omitempty"`

	// DefaultCompositeDeletePolicy has no effect without claims.
	//
	// Deprecated: composites of this version have no claims.
	//
	// +optional
	DefaultCompositeDeletePolicy *v1.DeletePolicy `json:"defaultCompositeDeletePolicy,omitempty"`

	// ConnectionSecretKeys is set in definitions that were created as v1.
	//
	// Deprecated: compose a Secret instead.
	//
	// +optional
	ConnectionSecretKeys []string `json:"connectionSecretKeys,omitempty"`
}
