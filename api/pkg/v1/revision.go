package v1

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// PackageRevisionSpec is what all revisions have in their specs.
type PackageRevisionSpec struct {
	// DesiredState is Active or Inactive.
	DesiredState DesiredState `json:"desiredState"`

	// Image is the image of the package.
	Image string `json:"image"`

	// Revision is higher for newer revisions.
	Revision int64 `json:"revision"`

	PackageSettings `json:",inline"`
}

// RuntimeRevisionSpec is what revisions with a runtime have in their specs beside that.
type RuntimeRevisionSpec struct {
	RuntimeSettings `json:",inline"`

	// TLSServerSecretName names the Secret with the server certificate.
	//
	// +optional
	TLSServerSecretName *string `json:"tlsServerSecretName,omitempty"`

	// TLSClientSecretName names the Secret with the client certificate.
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

// PackageRevisionStatus is the status of a revision.
type PackageRevisionStatus struct {
	// ObservedGeneration is the generation of the object that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are RevisionHealthy and, of what runs, RuntimeHealthy.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`

	RuntimeStatus `json:",inline"`

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

// RuntimeStatus is where a revision with a runtime is reached.
type RuntimeStatus struct {
	// Endpoint is the address of the function or of the provider's webhooks.
	Endpoint string `json:"endpoint,omitempty"`

	// TLSServerSecretName names the Secret with the server certificate, once it is issued.
	TLSServerSecretName string `json:"tlsServerSecretName,omitempty"`

	// TLSClientSecretName names the Secret with the client certificate, once it is issued.
	TLSClientSecretName string `json:"tlsClientSecretName,omitempty"`
}

// ObjectRef names an object.
type ObjectRef struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// +optional
	UID types.UID `json:"uid,omitempty"`
}
