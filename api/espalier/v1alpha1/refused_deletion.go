package v1alpha1

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// RefusedDeletion is the record of a deletion that the webhook has refused because the object was
// in use, by a usage that replays deletions. When the last usage of the object ends, the
// controllers delete the object if the user who requested that may still do so. Only the
// controllers write it, and no permission in a namespace applies to it.
//
// Its name is computed from the object's kind, namespace and name. If you delete it, the deletion
// is not replayed.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories=espalier
// +kubebuilder:printcolumn:name="KIND",type=string,JSONPath=`.spec.object.kind`
// +kubebuilder:printcolumn:name="NAMESPACE",type=string,JSONPath=`.spec.object.namespace`
// +kubebuilder:printcolumn:name="OBJECT",type=string,JSONPath=`.spec.object.name`
// +kubebuilder:printcolumn:name="USER",type=string,JSONPath=`.spec.user.username`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type RefusedDeletion struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RefusedDeletionSpec `json:"spec"`
}

// RefusedDeletionList is a list of RefusedDeletion.
//
// +kubebuilder:object:root=true
type RefusedDeletionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RefusedDeletion `json:"items"`
}

// RefusedDeletionSpec is what a RefusedDeletion records.
type RefusedDeletionSpec struct {
	Object RefusedDeletionObject `json:"object"`

	// PropagationPolicy is the requested propagation policy.
	PropagationPolicy metav1.DeletionPropagation `json:"propagationPolicy"`

	// User is the user who requested the deletion, as the API server knows it.
	User authenticationv1.UserInfo `json:"user"`
}

// RefusedDeletionObject identifies one incarnation of an object.
type RefusedDeletionObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// +optional
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}
