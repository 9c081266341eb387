package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Cluster is a cluster of the sandbox cloud.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,sandbox}
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterList is a list of Cluster.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// ClusterSpec is the desired state of a Cluster.
type ClusterSpec struct {
	resource.Spec `json:",inline"`

	ForProvider ClusterParameters `json:"forProvider,omitempty"`
	// InitProvider has values for fields that forProvider leaves unset. They are used
	// at creation only.
	//
	// +optional
	InitProvider ClusterParameters `json:"initProvider,omitempty"`
}

// ClusterParameters are the properties of a cluster.
type ClusterParameters struct {
	// Region is the region of the cluster; main by default.
	//
	// +optional
	Region string `json:"region,omitempty"`
	// SubnetIDs are the identities of its subnets, all of one network.
	//
	// +optional
	SubnetIDs []string `json:"subnetIDs,omitempty"`
	// SubnetIDRefs name the Subnets whose identities subnetIDs takes.
	//
	// +optional
	SubnetIDRefs []resource.Reference `json:"subnetIDRefs,omitempty"`
	// SubnetIDSelector selects the Subnets whose identities subnetIDs takes.
	//
	// +optional
	SubnetIDSelector *resource.Selector `json:"subnetIDSelector,omitempty"`
	// RoleID is the identity of the role that it runs as. It cannot be changed.
	//
	// +optional
	RoleID *string `json:"roleID,omitempty"`
	// RoleIDRef names the Role whose identity roleID takes.
	//
	// +optional
	RoleIDRef *resource.Reference `json:"roleIDRef,omitempty"`
	// RoleIDSelector selects the Role whose identity roleID takes.
	//
	// +optional
	RoleIDSelector *resource.Selector `json:"roleIDSelector,omitempty"`
	// Nodes is how many nodes it has.
	//
	// +optional
	Nodes *int64 `json:"nodes,omitempty"`
}

// ClusterStatus is the observed state of a Cluster.
type ClusterStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider ClusterObservation `json:"atProvider,omitempty"`
}

// ClusterObservation is the cluster as observed in the cloud.
type ClusterObservation struct {
	// +optional
	ID string `json:"id,omitempty"`
	// +optional
	Region string `json:"region,omitempty"`
	// +optional
	State string `json:"state,omitempty"`
	// +optional
	SubnetIDs []string `json:"subnetIDs,omitempty"`
	// +optional
	RoleID string `json:"roleID,omitempty"`
	// +optional
	Nodes int64 `json:"nodes,omitempty"`
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
}
