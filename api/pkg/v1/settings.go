package v1

import corev1 "k8s.io/api/core/v1"

// PackageSettings configure how a package is fetched.
type PackageSettings struct {
	// PackagePullSecrets are the credentials for private registries.
	//
	// +optional
	PackagePullSecrets []corev1.LocalObjectReference `json:"packagePullSecrets,omitempty"`

	// PackagePullPolicy is when the package is fetched.
	//
	// +optional
	// +kubebuilder:default=IfNotPresent
	PackagePullPolicy *corev1.PullPolicy `json:"packagePullPolicy,omitempty"`

	// IgnoreCrossplaneConstraints installs a package that requires another version of
	// Crossplane.
	//
	// +optional
	// +kubebuilder:default=false
	IgnoreCrossplaneConstraints *bool `json:"ignoreCrossplaneConstraints,omitempty"`

	// SkipDependencyResolution installs a package without its dependencies.
	//
	// +optional
	// +kubebuilder:default=false
	SkipDependencyResolution *bool `json:"skipDependencyResolution,omitempty"`

	// CommonLabels are added to the objects of the package.
	//
	// +optional
	CommonLabels map[string]string `json:"commonLabels,omitempty"`

	// CommonAnnotations are added to the objects of the package.
	//
	// +optional
	CommonAnnotations map[string]string `json:"commonAnnotations,omitempty"`
}

// RuntimeSettings configure how a package runs.
type RuntimeSettings struct {
	// ControllerConfigRef is the older name of the configuration.
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
