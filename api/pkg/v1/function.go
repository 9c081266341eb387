package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Function is a function that compositions can call.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories={crossplane,pkg}
// +kubebuilder:printcolumn:name="INSTALLED",type="string",JSONPath=".status.conditions[?(@.type=='Installed')].status"
// +kubebuilder:printcolumn:name="HEALTHY",type="string",JSONPath=".status.conditions[?(@.type=='Healthy')].status"
// +kubebuilder:printcolumn:name="PACKAGE",type="string",JSONPath=".spec.package"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type Function struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FunctionSpec   `json:"spec,omitempty"`
	Status FunctionStatus `json:"status,omitempty"`
}

// FunctionList is a list of Function.
//
// +kubebuilder:object:root=true
type FunctionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Function `json:"items"`
}

// FunctionSpec is the spec of a function.
type FunctionSpec struct {
	// Package is the image of the function.
	Package string `json:"package"`

	// RevisionActivationPolicy is how a new revision becomes active: Automatic or Manual.
	//
	// +optional
	// +kubebuilder:default=Automatic
	RevisionActivationPolicy *ActivationPolicy `json:"revisionActivationPolicy,omitempty"`

	// RevisionHistoryLimit is how many inactive revisions are kept; 0 keeps all.
	//
	// +optional
	// +kubebuilder:default=1
	RevisionHistoryLimit *int64 `json:"revisionHistoryLimit,omitempty"`

	PackageSettings `json:",inline"`
	RuntimeSettings `json:",inline"`
}

// ActivationPolicy is how a new revision becomes active.
type ActivationPolicy string

// Policies for new revisions.
const (
	ActivationAutomatic ActivationPolicy = "Automatic"
	ActivationManual    ActivationPolicy = "Manual"
)

// FunctionStatus is the status of a function.
type FunctionStatus struct {
	// ObservedGeneration is the generation of the object that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Installed and Healthy.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`

	// CurrentRevision is the name of the newest revision, active or not.
	CurrentRevision string `json:"currentRevision,omitempty"`

	// CurrentIdentifier is the package of the newest revision.
	CurrentIdentifier string `json:"currentIdentifier,omitempty"`

	// AppliedImageConfigRefs are the image configurations that were used.
	AppliedImageConfigRefs []ImageConfigRef `json:"appliedImageConfigRefs,omitempty"`

	// ResolvedPackage is the package once an image configuration has rewritten it.
	ResolvedPackage string `json:"resolvedPackage,omitempty"`
}

// ImageConfigRef names an image configuration and what it was used for.
type ImageConfigRef struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}
