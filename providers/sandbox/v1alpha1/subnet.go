package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Subnet is a subnet of a network of the sandbox cloud.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,sandbox}
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Subnet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SubnetSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status SubnetStatus `json:"status,omitempty"`
}

// SubnetList is a list of Subnet.
//
// +kubebuilder:object:root=true
type SubnetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Subnet `json:"items"`
}

// SubnetSpec is the desired state of a Subnet.
type SubnetSpec struct {
	resource.Spec `json:",inline"`

	ForProvider SubnetParameters `json:"forProvider,omitempty"`
	// InitProvider has values for fields that forProvider leaves unset. They are used
	// at creation only.
	//
	// +optional
	InitProvider SubnetParameters `json:"initProvider,omitempty"`
}

// SubnetParameters are the properties of a subnet.
type SubnetParameters struct {
	// Region is the region of the subnet; main by default.
	//
	// +optional
	Region string `json:"region,omitempty"`
	// NetworkID is the identity of its network. It cannot be changed.
	//
	// +optional
	NetworkID *string `json:"networkID,omitempty"`
	// NetworkIDRef names the Network whose identity networkID takes.
	//
	// +optional
	NetworkIDRef *resource.Reference `json:"networkIDRef,omitempty"`
	// NetworkIDSelector selects the Network whose identity networkID takes.
	//
	// +optional
	NetworkIDSelector *resource.Selector `json:"networkIDSelector,omitempty"`
	// CIDR is the range of addresses, a part of that of the network. It cannot be changed.
	//
	// +optional
	CIDR *string `json:"cidr,omitempty"`
}

// SubnetStatus is the observed state of a Subnet.
type SubnetStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider SubnetObservation `json:"atProvider,omitempty"`
}

// SubnetObservation is the subnet as observed in the cloud.
type SubnetObservation struct {
	// +optional
	ID string `json:"id,omitempty"`
	// +optional
	Region string `json:"region,omitempty"`
	// +optional
	State string `json:"state,omitempty"`
	// +optional
	NetworkID string `json:"networkID,omitempty"`
	// +optional
	CIDR string `json:"cidr,omitempty"`
}
