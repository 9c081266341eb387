package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Hold suspends the controllers: while one exists, instances, managed resources and Bindings
// are not reconciled, not even those that are being deleted. Definitions are, so that kinds
// are served. An import creates a Hold before it writes anything and deletes it when it is
// complete; if an import is interrupted, running it again takes over its Hold.
//
// If you delete it, the controllers reconcile what exists by then.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="espalier.dev/schema=2"
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

// HoldSpec is the purpose of a hold.
type HoldSpec struct {
	// Reason is why the controllers are suspended, for people.
	//
	// +optional
	Reason string `json:"reason,omitempty"`
	// Import is the id of the export that is being restored; empty for other purposes.
	//
	// +optional
	Import string `json:"import,omitempty"`
	// Holder is the process that restores it. When another process takes over, it writes
	// its own name here, and the former stops.
	//
	// +optional
	Holder string `json:"holder,omitempty"`
}

// HoldStatus is whether the controllers are suspended.
type HoldStatus struct {
	// RestingSince is when the last reconcile in flight ended: since then the controllers
	// write nothing. It stays empty if no controllers run. Of several installations, all rest.
	//
	// +optional
	RestingSince *metav1.MicroTime `json:"restingSince,omitempty"`
	// Resting is since when each installation rests, by the name of its Lease, if several
	// share the cluster.
	//
	// +optional
	Resting map[string]metav1.MicroTime `json:"resting,omitempty"`
}

// ImportAnnotation is on objects that an import has created: the name of its Hold and, after a
// slash, the UID. The object is not reconciled until that Hold is known to be deleted, also by
// a controller that has not observed the Hold yet.
const ImportAnnotation = "espalier.dev/import"
