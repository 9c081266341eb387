package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Composition composes the composites of a kind with a pipeline of functions.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories=crossplane,shortName=comp
// +kubebuilder:printcolumn:name="XR-KIND",type="string",JSONPath=".spec.compositeTypeRef.kind"
// +kubebuilder:printcolumn:name="XR-APIVERSION",type="string",JSONPath=".spec.compositeTypeRef.apiVersion"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type Composition struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CompositionSpec `json:"spec,omitempty"`
}

// CompositionList is a list of Composition.
//
// +kubebuilder:object:root=true
type CompositionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Composition `json:"items"`
}

// CompositionSpec is the spec of a composition.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'Pipeline' && has(self.pipeline)",message="an array of pipeline steps is required in Pipeline mode"
type CompositionSpec struct {
	// CompositeTypeRef is the composite kind of the composition, in its referenceable
	// version.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	CompositeTypeRef TypeReference `json:"compositeTypeRef"`

	// Mode is Pipeline, which is the only mode.
	//
	// +optional
	// +kubebuilder:validation:Enum=Pipeline
	// +kubebuilder:default=Pipeline
	Mode CompositionMode `json:"mode,omitempty"`

	// Pipeline lists the functions that are called, one after the other.
	//
	// +optional
	// +listType=map
	// +listMapKey=step
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=99
	Pipeline []PipelineStep `json:"pipeline,omitempty"`

	// WriteConnectionSecretsToNamespace is the default namespace of the connection secrets
	// of composites, which only composites with scope LegacyCluster have.
	//
	// +optional
	WriteConnectionSecretsToNamespace *string `json:"writeConnectionSecretsToNamespace,omitempty"`

	// PublishConnectionDetailsWithStoreConfigRef has no effect: secret stores
	// are not supported. Older manifests have it.
	//
	// +optional
	PublishConnectionDetailsWithStoreConfigRef *StoreConfigReference `json:"publishConnectionDetailsWithStoreConfigRef,omitempty"`
}

// StoreConfigReference names a secret store. Secret stores are not supported.
type StoreConfigReference struct {
	Name string `json:"name"`
}

// CompositionMode is the mode of a composition.
type CompositionMode string

// PipelineMode composes by calling functions.
const PipelineMode CompositionMode = "Pipeline"

// PipelineStep is a call of a function.
type PipelineStep struct {
	// Step names the step; no two of a pipeline have the same name.
	Step string `json:"step"`

	// FunctionRef names the function to call.
	FunctionRef FunctionReference `json:"functionRef"`

	// Input is an object that is passed to the function unchanged.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:EmbeddedResource
	Input *runtime.RawExtension `json:"input,omitempty"`

	// Credentials are passed to the function.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	Credentials []FunctionCredentials `json:"credentials,omitempty"`

	// Requirements are read before the function is called for the first time.
	//
	// +optional
	Requirements *FunctionRequirements `json:"requirements,omitempty"`
}

// FunctionReference names a Function.
type FunctionReference struct {
	Name string `json:"name"`
}

// FunctionCredentials are credentials for a function.
//
// +kubebuilder:validation:XValidation:rule="self.source != 'Secret' || has(self.secretRef)",message="the Secret source requires a secretRef"
type FunctionCredentials struct {
	// Name is the name of the credentials in the request.
	Name string `json:"name"`

	// Source is where they are read from.
	//
	// +kubebuilder:validation:Enum=None;Secret
	Source CredentialsSource `json:"source"`

	// SecretRef names the Secret that holds them.
	//
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
}

// CredentialsSource is where a function's credentials are read from.
type CredentialsSource string

// Sources of credentials.
const (
	CredentialsNone   CredentialsSource = "None"
	CredentialsSecret CredentialsSource = "Secret"
)

// FunctionRequirements are read before a function is called for the first time.
type FunctionRequirements struct {
	// RequiredResources are objects of the cluster.
	//
	// +optional
	// +listType=map
	// +listMapKey=requirementName
	RequiredResources []RequiredResource `json:"requiredResources,omitempty"`

	// RequiredSchemas are schemas of kinds.
	//
	// +optional
	// +listType=map
	// +listMapKey=requirementName
	RequiredSchemas []RequiredSchema `json:"requiredSchemas,omitempty"`
}

// RequiredResource selects objects of a kind: one by name, several by labels, or all.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.name) && has(self.matchLabels))",message="name and matchLabels are mutually exclusive"
type RequiredResource struct {
	// RequirementName is the name of the objects in the request.
	RequirementName string `json:"requirementName"`
	APIVersion      string `json:"apiVersion"`
	Kind            string `json:"kind"`

	// Namespace is the namespace of the objects, if their kind is namespaced.
	//
	// +optional
	Namespace *string `json:"namespace,omitempty"`

	// Name is the name of the one required object.
	//
	// +optional
	Name *string `json:"name,omitempty"`

	// MatchLabels are labels that the required objects have.
	//
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// RequiredSchema names a kind whose schema is required.
type RequiredSchema struct {
	// RequirementName is the name of the schema in the request.
	RequirementName string `json:"requirementName"`
	APIVersion      string `json:"apiVersion"`
	Kind            string `json:"kind"`
}
