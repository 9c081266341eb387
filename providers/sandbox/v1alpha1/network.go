package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Network is a network of the sandbox cloud.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,sandbox}
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Network struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NetworkSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status NetworkStatus `json:"status,omitempty"`
}

// NetworkList is a list of Network.
//
// +kubebuilder:object:root=true
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Network `json:"items"`
}

// NetworkSpec is the desired state of a Network.
type NetworkSpec struct {
	resource.Spec `json:",inline"`

	ForProvider NetworkParameters `json:"forProvider,omitempty"`
	// InitProvider has values for fields that forProvider leaves unset. They are used
	// at creation only.
	//
	// +optional
	InitProvider NetworkParameters `json:"initProvider,omitempty"`
}

// NetworkParameters are the properties of a network.
type NetworkParameters struct {
	// Region is the region of the network; main by default.
	//
	// +optional
	Region string `json:"region,omitempty"`
	// CIDR is the range of addresses, such as 10.0.0.0/16.
	//
	// +optional
	CIDR *string `json:"cidr,omitempty"`
}

// NetworkStatus is the observed state of a Network.
type NetworkStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider NetworkObservation `json:"atProvider,omitempty"`
}

// NetworkObservation is the network as observed in the cloud.
type NetworkObservation struct {
	// +optional
	ID string `json:"id,omitempty"`
	// +optional
	Region string `json:"region,omitempty"`
	// +optional
	State string `json:"state,omitempty"`
	// +optional
	CIDR string `json:"cidr,omitempty"`
}
