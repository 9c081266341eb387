package v1alpha1

// Scale names fields of the status for the scale subresource of a kind, by which kubectl scale and autoscalers set the
// number of its replicas. It is an addition of Espalier's.
type Scale struct {
	// StatusReplicasPath is the field with the current number of replicas, an integer; .status.replicas by default.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^\.status(\.[A-Za-z_][A-Za-z0-9_-]*)+$`
	StatusReplicasPath string `json:"statusReplicasPath,omitempty"`

	// LabelSelectorPath is the field with the selector of the Pods, a string such as app=web, which a
	// HorizontalPodAutoscaler needs; by default .status.selector, if the status has it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^\.status(\.[A-Za-z_][A-Za-z0-9_-]*)+$`
	LabelSelectorPath string `json:"labelSelectorPath,omitempty"`
}
