package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	apiextensionsv1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Operation runs a pipeline of functions once, and applies the objects that they return.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories=crossplane,shortName=op
// +kubebuilder:printcolumn:name="SYNCED",type="string",JSONPath=".status.conditions[?(@.type=='Synced')].status"
// +kubebuilder:printcolumn:name="SUCCEEDED",type="string",JSONPath=".status.conditions[?(@.type=='Succeeded')].status"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type Operation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   OperationSpec   `json:"spec,omitempty"`
	Status OperationStatus `json:"status,omitempty"`
}

// OperationList is a list of Operation.
//
// +kubebuilder:object:root=true
type OperationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Operation `json:"items"`
}

// OperationSpec is the spec of an operation.
type OperationSpec struct {
	// Mode is Pipeline, which is the only mode.
	//
	// +optional
	// +kubebuilder:validation:Enum=Pipeline
	// +kubebuilder:default=Pipeline
	Mode apiextensionsv1.CompositionMode `json:"mode,omitempty"`

	// Pipeline lists the functions that are called, one after the other.
	//
	// +listType=map
	// +listMapKey=step
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=99
	Pipeline []apiextensionsv1.PipelineStep `json:"pipeline"`

	// RetryLimit is how many attempts may fail; the operation has failed after the last.
	//
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	RetryLimit *int64 `json:"retryLimit,omitempty"`

	// ServiceAccount is the account whose permissions the operation has. It is an addition of Espalier's. Without it, the
	// account of the configuration is used.
	//
	// +optional
	ServiceAccount *ServiceAccountReference `json:"serviceAccount,omitempty"`
}

// ServiceAccountReference names a ServiceAccount.
type ServiceAccountReference struct {
	// Namespace is the namespace of the ServiceAccount.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// Name is the name of the ServiceAccount.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// OperationStatus is the status of an operation.
type OperationStatus struct {
	// Conditions are Succeeded, ValidPipeline and Synced.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`

	// Failures is how many attempts have failed.
	//
	// +optional
	Failures int64 `json:"failures,omitempty"`

	// Pipeline has the outputs of the steps.
	//
	// +listType=map
	// +listMapKey=step
	// +optional
	Pipeline []StepOutput `json:"pipeline,omitempty"`

	// AppliedResourceRefs are the objects that were applied.
	//
	// +listType=atomic
	// +optional
	AppliedResourceRefs []AppliedResourceRef `json:"appliedResourceRefs,omitempty"`
}

// StepOutput is what a function has returned as its output.
type StepOutput struct {
	// Step is the name of the step.
	Step string `json:"step"`

	// Output is an object of the function's own.
	//
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Output *runtime.RawExtension `json:"output,omitempty"`
}

// AppliedResourceRef refers to an object.
type AppliedResourceRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// OperationTemplate is what the Operations of a CronOperation or a WatchOperation are made from.
type OperationTemplate struct {
	// Metadata has labels and annotations of the operations.
	//
	// +optional
	Metadata TemplateMetadata `json:"metadata,omitempty"`

	Spec OperationSpec `json:"spec"`
}

// TemplateMetadata is the metadata of a template.
type TemplateMetadata struct {
	// Labels are labels of the operations.
	//
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are annotations of the operations.
	//
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
