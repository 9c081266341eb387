package v1alpha1

import (
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Names of the kinds.
const (
	ManagedResourceDefinitionKind       = "ManagedResourceDefinition"
	ManagedResourceActivationPolicyKind = "ManagedResourceActivationPolicy"
)

// Types and reasons of their conditions.
const (
	TypeEstablished = "Established"
	TypeHealthy     = "Healthy"

	ReasonEstablished = "EstablishedManagedResource"
	ReasonPending     = "PendingManagedResource"
	ReasonInactive    = "InactiveManagedResource"
	ReasonTerminating = "TerminatingManagedResource"

	ReasonRunning           = "Running"
	ReasonEncounteredErrors = "EncounteredErrors"
)

// ManagedResourceState is whether the kind of a definition is served.
type ManagedResourceState string

// States of a definition.
const (
	ManagedResourceActive   ManagedResourceState = "Active"
	ManagedResourceInactive ManagedResourceState = "Inactive"
)

// ManagedResourceDefinition has the CustomResourceDefinition of a kind of a provider, which is created once the definition is
// active.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories=crossplane,shortName=mrd;mrds
// +kubebuilder:printcolumn:name="STATE",type="string",JSONPath=".spec.state"
// +kubebuilder:printcolumn:name="ESTABLISHED",type="string",JSONPath=".status.conditions[?(@.type=='Established')].status"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type ManagedResourceDefinition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ManagedResourceDefinitionSpec `json:"spec,omitempty"`
	// +optional
	Status ManagedResourceDefinitionStatus `json:"status,omitempty"`
}

// ManagedResourceDefinitionList is a list of ManagedResourceDefinition.
//
// +kubebuilder:object:root=true
type ManagedResourceDefinitionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ManagedResourceDefinition `json:"items"`
}

// ManagedResourceDefinitionSpec is the spec of a CustomResourceDefinition, and whether it is created.
type ManagedResourceDefinitionSpec struct {
	// Group is the API group of the kind. The definition is named <names.plural>.<group>.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	Group string `json:"group"`

	// Names are the names of the kind.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	Names extv1.CustomResourceDefinitionNames `json:"names"`

	// Scope is whether the kind's objects are in namespaces.
	//
	// +kubebuilder:validation:Enum=Namespaced;Cluster
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	Scope extv1.ResourceScope `json:"scope"`

	// Versions are the versions of the kind.
	//
	// +listType=map
	// +listMapKey=name
	Versions []ManagedResourceVersion `json:"versions"`

	// Conversion is how objects are converted between versions.
	//
	// +optional
	Conversion *extv1.CustomResourceConversion `json:"conversion,omitempty"`

	// PreserveUnknownFields is that of the CustomResourceDefinition.
	//
	// +optional
	PreserveUnknownFields bool `json:"preserveUnknownFields,omitempty"`

	// ConnectionDetails describes the keys of connection Secrets, for readers.
	//
	// +listType=map
	// +listMapKey=name
	// +optional
	ConnectionDetails []ConnectionDetail `json:"connectionDetails,omitempty"`

	// State is whether the CustomResourceDefinition is created. A definition that is active stays so.
	//
	// +optional
	// +kubebuilder:validation:Enum=Active;Inactive
	// +kubebuilder:default=Inactive
	// +kubebuilder:validation:XValidation:rule="self == oldSelf || oldSelf == 'Inactive'",message="An active definition stays active"
	State ManagedResourceState `json:"state,omitempty"`
}

// ManagedResourceVersion is a version of a kind.
type ManagedResourceVersion struct {
	// Name is the name of the version, such as v1beta1.
	Name string `json:"name"`

	// Served is whether the API server serves the version.
	Served bool `json:"served"`

	// Storage marks the one version that objects are stored in.
	Storage bool `json:"storage"`

	// Deprecated makes the API server warn clients that use the version.
	//
	// +optional
	Deprecated bool `json:"deprecated,omitempty"`

	// DeprecationWarning is the text of the warning.
	//
	// +optional
	DeprecationWarning *string `json:"deprecationWarning,omitempty"`

	// Schema is the schema of the version.
	//
	// +optional
	Schema *ManagedResourceSchema `json:"schema,omitempty"`

	// Subresources are those that the kind has.
	//
	// +optional
	Subresources *extv1.CustomResourceSubresources `json:"subresources,omitempty"`

	// AdditionalPrinterColumns are the columns of kubectl get.
	//
	// +optional
	AdditionalPrinterColumns []extv1.CustomResourceColumnDefinition `json:"additionalPrinterColumns,omitempty"`

	// SelectableFields are the fields by which objects can be selected.
	//
	// +optional
	SelectableFields []extv1.SelectableField `json:"selectableFields,omitempty"`
}

// ManagedResourceSchema is a schema as the author of a provider writes it.
type ManagedResourceSchema struct {
	// OpenAPIV3Schema may be any object: it is validated when the kind is created.
	//
	// +kubebuilder:pruning:PreserveUnknownFields
	OpenAPIV3Schema runtime.RawExtension `json:"openAPIV3Schema,omitempty"`
}

// ConnectionDetail is a key of connection Secrets.
type ConnectionDetail struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// ManagedResourceDefinitionStatus is the status of a definition.
type ManagedResourceDefinitionStatus struct {
	// ObservedGeneration is the generation of the object that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions has Established: whether the API server serves the kind.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`
}

// ManagedResourceActivationPolicy activates definitions by name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories=crossplane,shortName=mrap
// +kubebuilder:printcolumn:name="HEALTHY",type="string",JSONPath=".status.conditions[?(@.type=='Healthy')].status"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type ManagedResourceActivationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ManagedResourceActivationPolicySpec `json:"spec,omitempty"`
	// +optional
	Status ManagedResourceActivationPolicyStatus `json:"status,omitempty"`
}

// ManagedResourceActivationPolicyList is a list of ManagedResourceActivationPolicy.
//
// +kubebuilder:object:root=true
type ManagedResourceActivationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ManagedResourceActivationPolicy `json:"items"`
}

// ManagedResourceActivationPolicySpec names definitions.
type ManagedResourceActivationPolicySpec struct {
	// Activate are names of definitions, or patterns such as *.s3.aws.m.upbound.io. All that match any pattern of any policy are
	// activated, and stay active when the policy is deleted.
	//
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	Activate []string `json:"activate"`
}

// ManagedResourceActivationPolicyStatus is the status of a policy.
type ManagedResourceActivationPolicyStatus struct {
	// ObservedGeneration is the generation of the object that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions has Healthy.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`

	// Activated are the active definitions that the policy matches, sorted.
	//
	// +optional
	Activated []string `json:"activated,omitempty"`
}
