package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Usage protects an object from deletion, either while an object in the usage's namespace
// uses it, or, for a reason alone, until the usage is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:categories=crossplane
// +kubebuilder:printcolumn:name="DETAILS",type="string",JSONPath=".metadata.annotations.crossplane\\.io/usage-details"
// +kubebuilder:printcolumn:name="READY",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type Usage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec UsageSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status UsageStatus `json:"status,omitempty"`
}

// UsageList is a list of Usage.
//
// +kubebuilder:object:root=true
type UsageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Usage `json:"items"`
}

// ClusterUsage protects a cluster-scoped object from deletion, either while another one uses
// it, or, for a reason alone, until the usage is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories=crossplane
// +kubebuilder:printcolumn:name="DETAILS",type="string",JSONPath=".metadata.annotations.crossplane\\.io/usage-details"
// +kubebuilder:printcolumn:name="READY",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type ClusterUsage struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterUsageSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status UsageStatus `json:"status,omitempty"`
}

// ClusterUsageList is a list of ClusterUsage.
//
// +kubebuilder:object:root=true
type ClusterUsageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterUsage `json:"items"`
}

// UsageSpec has the protected object, and the object that uses it, a reason, or both.
//
// +kubebuilder:validation:XValidation:rule="has(self.by) || has(self.reason)",message="either \"spec.by\" or \"spec.reason\" must be specified."
// +kubebuilder:validation:XValidation:rule="has(self.by) || !has(self.of.resourceRef) || !has(self.of.resourceRef.__namespace__)",message="\"spec.by\" must be specified with \"spec.of.resourceRef.namespace\": a reason alone does not protect an object in another namespace."
// +kubebuilder:validation:XValidation:rule="has(self.by) || !has(self.of.resourceSelector) || !has(self.of.resourceSelector.__namespace__)",message="\"spec.by\" must be specified with \"spec.of.resourceSelector.namespace\": a reason alone does not protect an object in another namespace."
type UsageSpec struct {
	// Of is the object that is used and protected. It is in the usage's namespace.
	//
	// +kubebuilder:validation:XValidation:rule="has(self.resourceRef) || has(self.resourceSelector)",message="either a resource reference or a resource selector should be set."
	Of NamespacedResource `json:"of"`

	// By is the object that uses it. Without one, the protection lasts until the usage is
	// deleted.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.resourceRef) || has(self.resourceSelector)",message="either a resource reference or a resource selector should be set."
	By *Resource `json:"by,omitempty"`

	// Reason is shown in the error when a deletion is refused.
	//
	// +optional
	Reason *string `json:"reason,omitempty"`

	// ReplayDeletion makes the controllers delete the protected object once the usage is gone,
	// if a deletion of it was refused before, and the user who requested that may still delete it.
	//
	// +optional
	ReplayDeletion *bool `json:"replayDeletion,omitempty"`
}

// ClusterUsageSpec has the protected object, and the object that uses it, a reason, or both.
//
// +kubebuilder:validation:XValidation:rule="has(self.by) || has(self.reason)",message="either \"spec.by\" or \"spec.reason\" must be specified."
type ClusterUsageSpec struct {
	// Of is the object that is used and protected.
	//
	// +kubebuilder:validation:XValidation:rule="has(self.resourceRef) || has(self.resourceSelector)",message="either a resource reference or a resource selector should be set."
	Of Resource `json:"of"`

	// By is the object that uses it. Without one, the protection lasts until the usage is
	// deleted.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.resourceRef) || has(self.resourceSelector)",message="either a resource reference or a resource selector should be set."
	By *Resource `json:"by,omitempty"`

	// Reason is shown in the error when a deletion is refused.
	//
	// +optional
	Reason *string `json:"reason,omitempty"`

	// ReplayDeletion makes the controllers delete the protected object once the usage is gone,
	// if a deletion of it was refused before, and the user who requested that may still delete it.
	//
	// +optional
	ReplayDeletion *bool `json:"replayDeletion,omitempty"`
}

// UsageStatus is the status of a usage.
type UsageStatus struct {
	// ObservedGeneration is the generation of the object that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions has the type Ready.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`
}

// Resource is an object in the scope of the usage.
type Resource struct {
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// +optional
	Kind string `json:"kind,omitempty"`
	// ResourceRef names the object.
	//
	// +optional
	ResourceRef *ResourceRef `json:"resourceRef,omitempty"`
	// ResourceSelector selects the object, unless ResourceRef names it.
	//
	// +optional
	ResourceSelector *ResourceSelector `json:"resourceSelector,omitempty"`
}

// ResourceRef names an object.
type ResourceRef struct {
	Name string `json:"name"`
}

// ResourceSelector selects an object.
type ResourceSelector struct {
	// MatchLabels are labels that the object has.
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// MatchControllerRef selects only objects with the same controller owner reference as the
	// usage's.
	MatchControllerRef *bool `json:"matchControllerRef,omitempty"`
}

// NamespacedResource is an object in the namespace of the usage.
type NamespacedResource struct {
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// +optional
	Kind string `json:"kind,omitempty"`
	// ResourceRef names the object.
	//
	// +optional
	ResourceRef *NamespacedResourceRef `json:"resourceRef,omitempty"`
	// ResourceSelector selects the object, unless ResourceRef names it.
	//
	// +optional
	ResourceSelector *NamespacedResourceSelector `json:"resourceSelector,omitempty"`
}

// NamespacedResourceRef names an object.
type NamespacedResourceRef struct {
	Name string `json:"name"`
	// Namespace is the usage's namespace, which is the default: an object of another one is not
	// protected.
	//
	// +optional
	Namespace *string `json:"namespace,omitempty"`
}

// NamespacedResourceSelector selects an object.
type NamespacedResourceSelector struct {
	// MatchLabels are labels that the object has.
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// MatchControllerRef selects only objects with the same controller owner reference as the
	// usage's.
	MatchControllerRef *bool `json:"matchControllerRef,omitempty"`
	// Namespace is the usage's namespace, which is the default: an object of another one is not
	// protected.
	//
	// +optional
	Namespace *string `json:"namespace,omitempty"`
}
