package v1

import "github.com/espalier-dev/espalier/api/v1alpha1"

// PackageSpec is what all packages have in their specs.
type PackageSpec struct {
	// Package is the image of the package.
	Package string `json:"package"`

	// RevisionActivationPolicy is how a new revision becomes active: Automatic or Manual.
	//
	// +optional
	// +kubebuilder:default=Automatic
	RevisionActivationPolicy *ActivationPolicy `json:"revisionActivationPolicy,omitempty"`

	// RevisionHistoryLimit is how many inactive revisions are kept; 0 keeps all.
	//
	// +optional
	// +kubebuilder:default=1
	RevisionHistoryLimit *int64 `json:"revisionHistoryLimit,omitempty"`

	PackageSettings `json:",inline"`
}

// ActivationPolicy is how a new revision becomes active.
type ActivationPolicy string

// Policies for new revisions.
const (
	ActivationAutomatic ActivationPolicy = "Automatic"
	ActivationManual    ActivationPolicy = "Manual"
)

// PackageStatus is the status of a package.
type PackageStatus struct {
	// ObservedGeneration is the generation of the object that the status is of.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Installed and Healthy.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []v1alpha1.Condition `json:"conditions,omitempty"`

	// CurrentRevision is the name of the newest revision, active or not.
	CurrentRevision string `json:"currentRevision,omitempty"`

	// CurrentIdentifier is the package of the newest revision.
	CurrentIdentifier string `json:"currentIdentifier,omitempty"`

	// AppliedImageConfigRefs are the image configurations that were used.
	AppliedImageConfigRefs []ImageConfigRef `json:"appliedImageConfigRefs,omitempty"`

	// ResolvedPackage is the package once an image configuration has rewritten it.
	ResolvedPackage string `json:"resolvedPackage,omitempty"`
}

// ImageConfigRef names an image configuration and what it was used for.
type ImageConfigRef struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}
