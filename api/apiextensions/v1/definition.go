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
// +kubebuilder:resource:scope=Cluster,categories=crossplane,shortName=xrd;xrds
// +kubebuilder:printcolumn:name="ESTABLISHED",type="string",JSONPath=".status.conditions[?(@.type=='Established')].status"
// +kubebuilder:printcolumn:name="OFFERED",type="string",JSONPath=".status.conditions[?(@.type=='Offered')].status"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type CompositeResourceDefinition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   DefinitionSpec   `json:"spec,omitempty"`
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

// DefinitionSpec is what a definition asks for.
//
// +kubebuilder:validation:XValidation:rule="self.scope == 'LegacyCluster' || !has(self.claimNames)",message="Only LegacyCluster composite resources can offer claims"
// +kubebuilder:validation:XValidation:rule="self.scope == 'LegacyCluster' || !has(self.connectionSecretKeys)",message="Only LegacyCluster composite resources support connection secrets"
type DefinitionSpec struct {
	// Group is the API group of the kind. The definition is named
	// <names.plural>.<group>.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	Group string `json:"group"`

	// Names are those of the composite kind.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	// +kubebuilder:validation:XValidation:rule="self.plural == self.plural.lowerAscii()",message="Plural name must be lowercase"
	// +kubebuilder:validation:XValidation:rule="!has(self.singular) || self.singular == self.singular.lowerAscii()",message="Singular name must be lowercase"
	Names extv1.CustomResourceDefinitionNames `json:"names"`

	// Scope says whether composites live in a namespace. LegacyCluster is the older
	// layout: cluster-scoped, with the machinery's fields beside the author's, and
	// the only one that can be claimed.
	//
	// +optional
	// +kubebuilder:validation:Enum=LegacyCluster;Namespaced;Cluster
	// +kubebuilder:default=LegacyCluster
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	Scope Scope `json:"scope,omitempty"`

	// ClaimNames are those of the namespaced kind that claims composites, if there
	// is one. They may be added later, but not changed then.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	// +kubebuilder:validation:XValidation:rule="self.plural == self.plural.lowerAscii()",message="Plural name must be lowercase"
	// +kubebuilder:validation:XValidation:rule="!has(self.singular) || self.singular == self.singular.lowerAscii()",message="Singular name must be lowercase"
	ClaimNames *extv1.CustomResourceDefinitionNames `json:"claimNames,omitempty"`

	// ConnectionSecretKeys are the only keys that a composite's connection secret
	// may have; without any, all keys are published.
	//
	// +optional
	ConnectionSecretKeys []string `json:"connectionSecretKeys,omitempty"`

	// DefaultCompositeDeletePolicy is how a claim that doesn't say so has its
	// composite deleted.
	//
	// +optional
	// +kubebuilder:default=Background
	DefaultCompositeDeletePolicy *DeletePolicy `json:"defaultCompositeDeletePolicy,omitempty"`

	// DefaultCompositionRef names the composition of composites that neither name
	// nor select one.
	//
	// +optional
	DefaultCompositionRef *CompositionReference `json:"defaultCompositionRef,omitempty"`

	// DefaultCompositionRevisionSelector selects among the composition's revisions
	// for composites that don't.
	//
	// +optional
	DefaultCompositionRevisionSelector *metav1.LabelSelector `json:"defaultCompositionRevisionSelector,omitempty"`

	// EnforcedCompositionRef names the composition of all composites, whatever they
	// ask for.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	EnforcedCompositionRef *CompositionReference `json:"enforcedCompositionRef,omitempty"`

	// DefaultCompositionUpdatePolicy is the policy of composites that have none.
	//
	// +optional
	// +kubebuilder:default=Automatic
	DefaultCompositionUpdatePolicy *UpdatePolicy `json:"defaultCompositionUpdatePolicy,omitempty"`

	// Versions are those that the kinds are served in.
	Versions []DefinitionVersion `json:"versions"`

	// Conversion says how objects are converted between versions.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.strategy != 'Webhook' || has(self.webhook)",message="Webhook configuration is required when conversion strategy is Webhook"
	Conversion *extv1.CustomResourceConversion `json:"conversion,omitempty"`

	// Metadata is for the CustomResourceDefinitions of the kinds.
	//
	// +optional
	Metadata *DefinitionMetadata `json:"metadata,omitempty"`
}

// CompositionReference names a Composition.
type CompositionReference struct {
	Name string `json:"name"`
}

// DefinitionMetadata is put on the CustomResourceDefinitions of a definition's kinds.
type DefinitionMetadata struct {
	// Labels come on top of those of the definition.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are all that there are: those of the definition are not passed on.
	//
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// DefinitionVersion is a version that the kinds are served in.
type DefinitionVersion struct {
	// Name is v1, v2beta1 and the like.
	Name string `json:"name"`

	// Referenceable marks the one version that compositions are for and that
	// objects are stored in.
	Referenceable bool `json:"referenceable"`

	// Served says whether the API server offers the version.
	Served bool `json:"served"`

	// Deprecated makes the API server warn those who use the version.
	//
	// +optional
	Deprecated *bool `json:"deprecated,omitempty"`

	// DeprecationWarning is what it warns with.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DeprecationWarning *string `json:"deprecationWarning,omitempty"`

	// Schema is that of the author's fields. Fields of the machinery are added, and
	// take the place of others of their names.
	//
	// +optional
	Schema *DefinitionSchema `json:"schema,omitempty"`

	// AdditionalPrinterColumns come before those of the machinery.
	//
	// +optional
	AdditionalPrinterColumns []extv1.CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`

	// Subresources are those besides status, which there always is.
	//
	// +optional
	Subresources *DefinitionSubresources `json:"subresources,omitempty"`
}

// DefinitionSubresources are subresources that an author can ask for.
type DefinitionSubresources struct {
	// Scale lets autoscalers drive the kind.
	//
	// +optional
	Scale *extv1.CustomResourceSubresourceScale `json:"scale,omitempty"`
}
