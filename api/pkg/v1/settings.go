package v1

import corev1 "k8s.io/api/core/v1"

// PackageSettings are about fetching a package.
type PackageSettings struct {
	// PackagePullSecrets are for registries that ask who one is.
	//
	// +optional
	PackagePullSecrets []corev1.LocalObjectReference `json:"packagePullSecrets,omitempty"`

	// PackagePullPolicy says when the package is fetched.
	//
	// +optional
	// +kubebuilder:default=IfNotPresent
	PackagePullPolicy *corev1.PullPolicy `json:"packagePullPolicy,omitempty"`

	// IgnoreCrossplaneConstraints installs a package that asks for another version of
	// the control plane.
	//
	// +optional
	// +kubebuilder:default=false
	IgnoreCrossplaneConstraints *bool `json:"ignoreCrossplaneConstraints,omitempty"`

	// SkipDependencyResolution installs a package without those that it needs.
	//
	// +optional
	// +kubebuilder:default=false
	SkipDependencyResolution *bool `json:"skipDependencyResolution,omitempty"`

	// CommonLabels are put on what is made for the package.
	//
	// +optional
	CommonLabels map[string]string `json:"commonLabels,omitempty"`
}

// RuntimeSettings are about running a package.
type RuntimeSettings struct {
	// ControllerConfigRef is how older versions named the configuration.
	//
	// Deprecated: use runtimeConfigRef.
	//
	// +optional
	ControllerConfigRef *ControllerConfigReference `json:"controllerConfigRef,omitempty"`

	// RuntimeConfigRef names the configuration that the package runs with.
	//
	// +optional
	// +kubebuilder:default={"name": "default"}
	RuntimeConfigRef *RuntimeConfigReference `json:"runtimeConfigRef,omitempty"`
}

// ControllerConfigReference names a configuration of the older kind.
type ControllerConfigReference struct {
	Name string `json:"name"`
}

// RuntimeConfigReference names a configuration to run with.
type RuntimeConfigReference struct {
	// +optional
	// +kubebuilder:default="pkg.crossplane.io/v1beta1"
	APIVersion *string `json:"apiVersion,omitempty"`
	// +optional
	// +kubebuilder:default="DeploymentRuntimeConfig"
	Kind *string `json:"kind,omitempty"`
	Name string  `json:"name"`
}
