package v1alpha1

// ServiceAccount names a ServiceAccount.
type ServiceAccount struct {
	// Name is the name of the ServiceAccount.
	//
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// Namespace is the namespace of the ServiceAccount. A definition in a namespace
	// takes those of that namespace only, and need not name it; any other has to.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}
