package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Labels of a CompositionRevision.
const (
	// CompositionNameLabel contains the name of the revision's composition.
	CompositionNameLabel = "crossplane.io/composition-name"
	// CompositionHashLabel contains a digest of the composition's spec.
	CompositionHashLabel = "crossplane.io/composition-hash"
)

// CompositionRevision is a snapshot of a Composition's spec. Only the controllers write it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories=crossplane,shortName=comprev
// +kubebuilder:printcolumn:name="REVISION",type="string",JSONPath=".spec.revision"
// +kubebuilder:printcolumn:name="XR-KIND",type="string",JSONPath=".spec.compositeTypeRef.kind"
// +kubebuilder:printcolumn:name="XR-APIVERSION",type="string",JSONPath=".spec.compositeTypeRef.apiVersion"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type CompositionRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec CompositionRevisionSpec `json:"spec,omitempty"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status CompositionRevisionStatus `json:"status,omitempty"`
}

// CompositionRevisionList is a list of CompositionRevision.
//
// +kubebuilder:object:root=true
type CompositionRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CompositionRevision `json:"items"`
}

// CompositionRevisionSpec is the composition's spec and the number of the revision.
type CompositionRevisionSpec struct {
	// CompositeTypeRef is the composite kind of the composition.
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
	Pipeline []PipelineStep `json:"pipeline,omitempty"`

	// WriteConnectionSecretsToNamespace is the default namespace of the connection secrets
	// of composites.
	//
	// +optional
	WriteConnectionSecretsToNamespace *string `json:"writeConnectionSecretsToNamespace,omitempty"`

	// PublishConnectionDetailsWithStoreConfigRef has no effect: secret stores
	// are not supported. It is accepted since manifests for older versions of Crossplane have it.
	//
	// +optional
	PublishConnectionDetailsWithStoreConfigRef *StoreConfigReference `json:"publishConnectionDetailsWithStoreConfigRef,omitempty"`

	// Revision is the number of the revision: the newest revision of a composition has the
	// highest one. If a composition is reverted to the spec of an older revision, that
	// revision becomes the newest, and its number is raised.
	Revision int64 `json:"revision"`
}

// CompositionRevisionStatus is the status of a revision.
type CompositionRevisionStatus struct {
	// ObservedGeneration is the generation of the object that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions has the type ValidPipeline.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`
}

// CompositionSpec returns the composition's spec, which is the revision's without its number.
func (s *CompositionRevisionSpec) CompositionSpec() CompositionSpec {
	return CompositionSpec{
		CompositeTypeRef: s.CompositeTypeRef, Mode: s.Mode, Pipeline: s.Pipeline,
		WriteConnectionSecretsToNamespace:          s.WriteConnectionSecretsToNamespace,
		PublishConnectionDetailsWithStoreConfigRef: s.PublishConnectionDetailsWithStoreConfigRef,
	}
}
