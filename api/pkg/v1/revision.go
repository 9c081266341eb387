package v1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// FunctionRevision is a version of a function. The active one is called.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster,categories={crossplane,pkgrev}
// +kubebuilder:printcolumn:name="HEALTHY",type="string",JSONPath=".status.conditions[?(@.type=='RevisionHealthy')].status"
// +kubebuilder:printcolumn:name="RUNTIME",type="string",JSONPath=".status.conditions[?(@.type=='RuntimeHealthy')].status"
// +kubebuilder:printcolumn:name="IMAGE",type="string",JSONPath=".spec.image"
// +kubebuilder:printcolumn:name="STATE",type="string",JSONPath=".spec.desiredState"
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="REVISION",type="string",JSONPath=".spec.revision",priority=1
// +kubebuilder:printcolumn:name="DEP-FOUND",type="string",JSONPath=".status.foundDependencies",priority=1
// +kubebuilder:printcolumn:name="DEP-INSTALLED",type="string",JSONPath=".status.installedDependencies",priority=1
type FunctionRevision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FunctionRevisionSpec   `json:"spec,omitempty"`
	Status FunctionRevisionStatus `json:"status,omitempty"`
}

// FunctionRevisionList is a list of FunctionRevision.
//
// +kubebuilder:object:root=true
type FunctionRevisionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []FunctionRevision `json:"items"`
}

// FunctionRevisionSpec is the spec of a revision.
type FunctionRevisionSpec struct {
	// DesiredState is Active or Inactive.
	DesiredState DesiredState `json:"desiredState"`

	// Image is the image of the function.
	Image string `json:"image"`

	// Revision is higher for newer revisions.
	Revision int64 `json:"revision"`

	PackageSettings `json:",inline"`
	RuntimeSettings `json:",inline"`

	// TLSServerSecretName names the Secret with the function's server certificate.
	//
	// +optional
	TLSServerSecretName *string `json:"tlsServerSecretName,omitempty"`

	// TLSClientSecretName names the Secret with the package's client certificate.
	//
	// +optional
	TLSClientSecretName *string `json:"tlsClientSecretName,omitempty"`
}

// DesiredState is whether a revision is active.
type DesiredState string

// States of a revision.
const (
	RevisionActive   DesiredState = "Active"
	RevisionInactive DesiredState = "Inactive"
)

// FunctionRevisionStatus is the status of a revision.
type FunctionRevisionStatus struct {
	// ObservedGeneration is the generation of the object that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are RevisionHealthy, RuntimeHealthy and Verified.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`

	// Endpoint is the address of the function.
	Endpoint string `json:"endpoint,omitempty"`

	// ObjectRefs are the objects that the revision owns.
	ObjectRefs []ObjectRef `json:"objectRefs,omitempty"`

	// FoundDependencies, InstalledDependencies and InvalidDependencies count the
	// packages that this one needs.
	FoundDependencies     int64 `json:"foundDependencies,omitempty"`
	InstalledDependencies int64 `json:"installedDependencies,omitempty"`
	InvalidDependencies   int64 `json:"invalidDependencies,omitempty"`

	// PermissionRequests are the permissions that the package requests.
	PermissionRequests []rbacv1.PolicyRule `json:"permissionRequests,omitempty"`

	// AppliedImageConfigRefs are the image configurations that were used.
	AppliedImageConfigRefs []ImageConfigRef `json:"appliedImageConfigRefs,omitempty"`

	// ResolvedImage is the image once an image configuration has rewritten it.
	ResolvedImage string `json:"resolvedImage,omitempty"`

	// Capabilities are the capabilities that the package declares.
	Capabilities []string `json:"capabilities,omitempty"`
}

// ObjectRef names an object.
type ObjectRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// +optional
	UID types.UID `json:"uid,omitempty"`
}
