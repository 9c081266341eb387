package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// ResourceTypeActivationKind is the kind of activations.
const ResourceTypeActivationKind = "ResourceTypeActivation"

// ResourceTypeActivation activates resource types of AWS, such as AWS::EC2::VPC: their kinds are
// installed and served. A kind that is not activated any more is removed once no object of it
// exists.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories={espalier}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Kinds",type=integer,JSONPath=`.status.kinds.activated`
// +kubebuilder:printcolumn:name="Served",type=integer,JSONPath=`.status.kinds.served`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceTypeActivation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec ResourceTypeActivationSpec `json:"spec,omitempty"`
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status ResourceTypeActivationStatus `json:"status,omitempty"`
}

// ResourceTypeActivationSpec says which resource types are activated.
type ResourceTypeActivationSpec struct {
	resource.ActivationSpec `json:",inline"`
}

// ResourceTypeActivationStatus says which kinds are served.
type ResourceTypeActivationStatus struct {
	resource.ActivationStatus `json:",inline"`
}
