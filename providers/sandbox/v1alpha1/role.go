package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// Role is an IAM role of the sandbox cloud.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Namespaced,categories={crossplane,managed,sandbox}
// +kubebuilder:printcolumn:name="SYNCED",type=string,JSONPath=`.status.conditions[?(@.type=="Synced")].status`
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.metadata.annotations.crossplane\.io/external-name`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Role struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RoleSpec `json:"spec"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status RoleStatus `json:"status,omitempty"`
}

// RoleList is a list of Role.
//
// +kubebuilder:object:root=true
type RoleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Role `json:"items"`
}

// RoleSpec is the desired state of a Role.
type RoleSpec struct {
	resource.Spec `json:",inline"`

	ForProvider RoleParameters `json:"forProvider,omitempty"`
	// InitProvider has values for fields that forProvider leaves unset. They are used
	// at creation only.
	//
	// +optional
	InitProvider RoleParameters `json:"initProvider,omitempty"`
}

// RoleParameters are the properties of a role.
type RoleParameters struct {
	// Region is the region of the role; main by default.
	//
	// +optional
	Region string `json:"region,omitempty"`
	// Trust is who may assume the role, such as cluster.sandbox.
	//
	// +optional
	Trust *string `json:"trust,omitempty"`
	// Policies name what the role allows.
	//
	// +optional
	Policies []string `json:"policies,omitempty"`
}

// RoleStatus is the observed state of a Role.
type RoleStatus struct {
	resource.Status `json:",inline"`

	// +optional
	AtProvider RoleObservation `json:"atProvider,omitempty"`
}

// RoleObservation is the role as observed in the cloud.
type RoleObservation struct {
	// +optional
	ID string `json:"id,omitempty"`
	// +optional
	Region string `json:"region,omitempty"`
	// +optional
	State string `json:"state,omitempty"`
	// +optional
	Trust string `json:"trust,omitempty"`
	// +optional
	Policies []string `json:"policies,omitempty"`
}
