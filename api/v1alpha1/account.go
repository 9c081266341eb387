package v1alpha1

// ServiceAccount names a ServiceAccount.
type ServiceAccount struct {
	// Name is the name of the ServiceAccount.
	//
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// Namespace is the namespace of the ServiceAccount. It defaults to the definition's own,
	// which is the only one allowed for a namespaced definition; a cluster-scoped definition
	// must set it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}
