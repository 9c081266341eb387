package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Kinds of this package that only this version has.
const (
	LockKind                    = "Lock"
	DeploymentRuntimeConfigKind = "DeploymentRuntimeConfig"
	ImageConfigKind             = "ImageConfig"
)

// LockName is the name of the one Lock of a cluster.
const LockName = "lock"

// Lock has the active revision of each package with its dependencies. There is one in a cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="espalier.dev/schema=1"
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type Lock struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Packages []LockPackage `json:"packages,omitempty"`

	// +optional
	Status LockStatus `json:"status,omitempty"`
}

// LockList is a list of Lock.
//
// +kubebuilder:object:root=true
type LockList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Lock `json:"items"`
}

// LockPackage is the active revision of a package.
type LockPackage struct {
	// Name is the name of the revision.
	Name string `json:"name"`

	// APIVersion and Kind are the type of the package.
	//
	// +optional
	APIVersion *string `json:"apiVersion,omitempty"`
	// +optional
	Kind *string `json:"kind,omitempty"`

	// Type is Configuration, Provider or Function; newer entries have apiVersion and kind.
	//
	// +optional
	Type *PackageType `json:"type,omitempty"`

	// Source is the image without tag and digest.
	Source string `json:"source"`

	// Version is the tag or digest of the image.
	Version string `json:"version"`

	// Dependencies are the packages that this one needs.
	Dependencies []LockDependency `json:"dependencies"`
}

// LockDependency is a package that another one needs.
type LockDependency struct {
	// Package is the image without tag and digest.
	Package string `json:"package"`

	// APIVersion and Kind are the type of the package.
	//
	// +optional
	APIVersion *string `json:"apiVersion,omitempty"`
	// +optional
	Kind *string `json:"kind,omitempty"`

	// Type is Configuration, Provider or Function; newer entries have apiVersion and kind.
	//
	// +optional
	Type *PackageType `json:"type,omitempty"`

	// Constraints is a range of semantic versions, or a digest.
	Constraints string `json:"constraints"`
}

// PackageType is a type of packages.
type PackageType string

// LockStatus is the status of the Lock.
type LockStatus struct {
	// Conditions are Resolved.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`
}
