package v1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// FunctionRevision is a function as it was distributed at some time. The active one is
// the one that is called.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
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

// FunctionRevisionSpec says what the revision is of and whether it is in use.
type FunctionRevisionSpec struct {
	// DesiredState is Active or Inactive.
	DesiredState DesiredState `json:"desiredState"`

	// Image is what the function is distributed as.
	Image string `json:"image"`

	// Revision is the higher the newer.
	Revision int64 `json:"revision"`

	PackageSettings `json:",inline"`
	RuntimeSettings `json:",inline"`

	// TLSServerSecretName names the Secret with the certificate that the function
	// shows.
	//
	// +optional
	TLSServerSecretName *string `json:"tlsServerSecretName,omitempty"`

	// TLSClientSecretName names the Secret with the certificate that the package
	// shows to others.
	//
	// +optional
	TLSClientSecretName *string `json:"tlsClientSecretName,omitempty"`
}

// DesiredState says whether a revision is in use.
type DesiredState string

// States of a revision.
const (
	RevisionActive   DesiredState = "Active"
	RevisionInactive DesiredState = "Inactive"
)

// FunctionRevisionStatus is what became of a revision.
type FunctionRevisionStatus struct {
	// Conditions are RevisionHealthy, RuntimeHealthy and Verified.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`

	// Endpoint is where the function is served.
	Endpoint string `json:"endpoint,omitempty"`

	// ObjectRefs are the objects that the revision owns.
	ObjectRefs []ObjectRef `json:"objectRefs,omitempty"`

	// FoundDependencies, InstalledDependencies and InvalidDependencies count the
	// packages that this one needs.
	FoundDependencies     int64 `json:"foundDependencies,omitempty"`
	InstalledDependencies int64 `json:"installedDependencies,omitempty"`
	InvalidDependencies   int64 `json:"invalidDependencies,omitempty"`

	// PermissionRequests are what the package asks to be allowed.
	PermissionRequests []rbacv1.PolicyRule `json:"permissionRequests,omitempty"`

	// AppliedImageConfigRefs are the image configurations that were used.
	AppliedImageConfigRefs []ImageConfigRef `json:"appliedImageConfigRefs,omitempty"`

	// ResolvedImage is the image once an image configuration has rewritten it.
	ResolvedImage string `json:"resolvedImage,omitempty"`

	// Capabilities are what the package says that it can do.
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
