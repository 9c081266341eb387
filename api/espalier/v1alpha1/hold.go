package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hold makes the controllers rest: while there is one, nothing is done about
// instances, managed resources and Bindings, not even about those that are being
// deleted. Definitions go on, so that kinds are served. An import puts one up before
// it writes anything and takes it away when all is there; one that was left behind
// by an import that died is taken over by the same import, run again.
//
// Deleting it by hand lets the controllers go on with whatever is there.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=espalier
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="REASON",type=string,JSONPath=`.spec.reason`
// +kubebuilder:printcolumn:name="RESTING",type=date,JSONPath=`.status.restingSince`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Hold struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec HoldSpec `json:"spec,omitempty"`
	// +optional
	Status HoldStatus `json:"status,omitempty"`
}

// HoldList is a list of Hold.
//
// +kubebuilder:object:root=true
type HoldList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Hold `json:"items"`
}

// HoldSpec says what a hold is for.
type HoldSpec struct {
	// Reason tells people why nothing is done.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Import is the id of the export that is being restored; empty for a hold of
	// another purpose.
	//
	// +optional
	Import string `json:"import,omitempty"`
	// Holder is the process that restores it. Another that takes over puts itself
	// in, and the former stops.
	//
	// +optional
	Holder string `json:"holder,omitempty"`
}

// HoldStatus says whether a hold is obeyed.
type HoldStatus struct {
	// RestingSince is when the last pass that was under way had ended: since then
	// the controllers change nothing. Without controllers it stays empty.
	//
	// +optional
	RestingSince *metav1.MicroTime `json:"restingSince,omitempty"`
}

// ImportAnnotation is on what an import has made: the name of its Hold and, after a
// slash, its UID. Until that very Hold is known to have gone, nothing is done about
// the object, also by a controller that hasn't heard of the Hold yet.
const ImportAnnotation = "espalier.dev/import"
