package v1

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CompositeResourceDefinition defines a kind whose objects are composed of others
// and, for those of the older scope, a namespaced kind to claim them with.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:deprecatedversion:warning="CompositeResourceDefinition v1 is deprecated and will be removed in a future release; consider migrating to v2"
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
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
	Status DefinitionStatus `json:"status,omitempty"`
}

// CompositeResourceDefinitionList is a list of CompositeResourceDefinition.
//
// +kubebuilder:object:root=true
type CompositeResourceDefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CompositeResourceDefinition `json:"items"`
}

// DefinitionSpec is the spec of a definition.
//
// +kubebuilder:validation:XValidation:rule="self.scope == 'LegacyCluster' || !has(self.claimNames)",message="Only LegacyCluster composite resources can offer claims"
// +kubebuilder:validation:XValidation:rule="self.scope == 'LegacyCluster' || !has(self.connectionSecretKeys)",message="Only LegacyCluster composite resources support connection secrets"
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

	// Scope is the scope of composites. LegacyCluster is cluster-scoped, has the system
	// fields directly in spec, and is the only scope with claims.
	//
	// +optional
	// +kubebuilder:validation:Enum=LegacyCluster;Namespaced;Cluster
	// +kubebuilder:default=LegacyCluster
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	Scope Scope `json:"scope,omitempty"`

	// ClaimNames are the names of the namespaced kind of claims, if there is one. They may
	// be added later, and are immutable once set.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	// +kubebuilder:validation:XValidation:rule="self.plural == self.plural.lowerAscii()",message="Plural name must be lowercase"
	// +kubebuilder:validation:XValidation:rule="!has(self.singular) || self.singular == self.singular.lowerAscii()",message="Singular name must be lowercase"
	ClaimNames *extv1.CustomResourceDefinitionNames `json:"claimNames,omitempty"`

	// ConnectionSecretKeys are the keys that are published in a composite's connection
	// secret; by default all.
	//
	// +optional
	ConnectionSecretKeys []string `json:"connectionSecretKeys,omitempty"`

	// DefaultCompositeDeletePolicy is the policy of claims that set none.
	//
	// +optional
	// +kubebuilder:default=Background
	DefaultCompositeDeletePolicy *DeletePolicy `json:"defaultCompositeDeletePolicy,omitempty"`

	// DefaultCompositionRef names the composition of composites that neither name
	// nor select one.
	//
	// +optional
	DefaultCompositionRef *CompositionReference `json:"defaultCompositionRef,omitempty"`

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
	EnforcedCompositionRef *CompositionReference `json:"enforcedCompositionRef,omitempty"`

	// DefaultCompositionUpdatePolicy is the policy of composites that set none.
	//
	// +optional
	// +kubebuilder:default=Automatic
	DefaultCompositionUpdatePolicy *UpdatePolicy `json:"defaultCompositionUpdatePolicy,omitempty"`

	// Versions are the versions of the kinds.
	Versions []DefinitionVersion `json:"versions"`

	// Conversion is how objects are converted between versions.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.strategy != 'Webhook' || has(self.webhook)",message="Webhook configuration is required when conversion strategy is Webhook"
	Conversion *extv1.CustomResourceConversion `json:"conversion,omitempty"`

	// Metadata is added to the CustomResourceDefinitions of the kinds.
	//
	// +optional
	Metadata *DefinitionMetadata `json:"metadata,omitempty"`
}

// CompositionReference names a Composition.
type CompositionReference struct {
	Name string `json:"name"`
}

// DefinitionMetadata is added to the CustomResourceDefinitions of a definition's kinds.
type DefinitionMetadata struct {
	// Labels are added to those of the definition.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are set; the annotations of the definition are not copied.
	//
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// DefinitionVersion is a version of the kinds.
type DefinitionVersion struct {
	// Name is the name of the version, such as v2beta1.
	Name string `json:"name"`

	// Referenceable marks the one version that compositions refer to and that objects are
	// stored in.
	Referenceable bool `json:"referenceable"`

	// Served is whether the API server serves the version.
	Served bool `json:"served"`

	// Deprecated makes the API server warn clients that use the version.
	//
	// +optional
	Deprecated *bool `json:"deprecated,omitempty"`

	// DeprecationWarning is the text of the warning.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DeprecationWarning *string `json:"deprecationWarning,omitempty"`

	// Schema is the schema of the author's fields. System fields are added, and replace
	// fields of the same names.
	//
	// +optional
	Schema *DefinitionSchema `json:"schema,omitempty"`

	// AdditionalPrinterColumns come before the system columns.
	//
	// +optional
	AdditionalPrinterColumns []extv1.CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`

	// Subresources are added to status, which every kind has.
	//
	// +optional
	Subresources *DefinitionSubresources `json:"subresources,omitempty"`
}

// DefinitionSubresources are subresources that an author can enable.
type DefinitionSubresources struct {
	// Scale enables the scale subresource, which autoscalers use.
	//
	// +optional
	Scale *extv1.CustomResourceSubresourceScale `json:"scale,omitempty"`
}
