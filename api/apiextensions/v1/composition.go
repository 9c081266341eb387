package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Composition says what composites of a kind are composed of: what a pipeline of
// functions makes of each.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
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

// CompositionSpec is what a composition consists of.
//
// +kubebuilder:validation:XValidation:rule="self.mode == 'Pipeline' && has(self.pipeline)",message="an array of pipeline steps is required in Pipeline mode"
type CompositionSpec struct {
	// CompositeTypeRef is the composite kind that the composition is for, in its
	// referenceable version.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="Value is immutable"
	CompositeTypeRef TypeReference `json:"compositeTypeRef"`

	// Mode is Pipeline: there is no other any more.
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

	// WriteConnectionSecretsToNamespace is where the connection secrets of
	// composites go that don't say where. Only composites of the older layout have
	// any.
	//
	// +optional
	WriteConnectionSecretsToNamespace *string `json:"writeConnectionSecretsToNamespace,omitempty"`

	// PublishConnectionDetailsWithStoreConfigRef has no effect: there are no secret
	// stores any more. Older manifests have it.
	//
	// +optional
	PublishConnectionDetailsWithStoreConfigRef *StoreConfigReference `json:"publishConnectionDetailsWithStoreConfigRef,omitempty"`
}

// StoreConfigReference names a secret store, of which there are none any more.
type StoreConfigReference struct {
	Name string `json:"name"`
}

// CompositionMode is how a composition composes.
type CompositionMode string

// PipelineMode composes by calling functions.
const PipelineMode CompositionMode = "Pipeline"

// PipelineStep is a call of a function.
type PipelineStep struct {
	// Step names the step; no two of a pipeline have the same name.
	Step string `json:"step"`

	// FunctionRef names the function to call.
	FunctionRef FunctionReference `json:"functionRef"`

	// Input is an object that is passed to the function as it is.
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
	// Name is by which the function knows them.
	Name string `json:"name"`

	// Source says where they come from.
	//
	// +kubebuilder:validation:Enum=None;Secret
	Source CredentialsSource `json:"source"`

	// SecretRef names the Secret that holds them.
	//
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`
}

// CredentialsSource says where a function's credentials come from.
type CredentialsSource string

// Sources of credentials.
const (
	CredentialsNone   CredentialsSource = "None"
	CredentialsSecret CredentialsSource = "Secret"
)

// FunctionRequirements are what a function wants to know before it is first called.
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
	// RequirementName is by which the function finds the objects.
	RequirementName string `json:"requirementName"`
	APIVersion      string `json:"apiVersion"`
	Kind            string `json:"kind"`

	// Namespace is where the objects are, if they are in one.
	//
	// +optional
	Namespace *string `json:"namespace,omitempty"`

	// Name is that of the one object that is wanted.
	//
	// +optional
	Name *string `json:"name,omitempty"`

	// MatchLabels are those that the wanted objects have.
	//
	// +optional
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
}

// RequiredSchema names a kind whose schema is wanted.
type RequiredSchema struct {
	// RequirementName is by which the function finds the schema.
	RequirementName string `json:"requirementName"`
	APIVersion      string `json:"apiVersion"`
	Kind            string `json:"kind"`
}
