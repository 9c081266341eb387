package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Binding is the durable memory of one managed resource's external resource: whose
// it is, what was asked of the external API, and what is known of the answer. It
// is written before each call that changes something, and read after every crash.
// Nobody but the runtime writes it, no policy of its managed resource gates it, and
// it belongs to no owner that could take it away.
//
// It is named by the key of the external resource, where its creator names that,
// so that two managed resources can't be after the same one. Where the external API
// assigns identities there are two for one external resource: the Binding, named by the
// managed resource's UID, and, once the identity is known, a second one that reserves the
// identity's key and has the label espalier.dev/reservation.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=espalier,shortName=ebinding
// +kubebuilder:printcolumn:name="PHASE",type=string,JSONPath=`.spec.phase`
// +kubebuilder:printcolumn:name="OPERATION",type=string,JSONPath=`.spec.operation.verb`
// +kubebuilder:printcolumn:name="KIND",type=string,JSONPath=`.spec.owner.kind`
// +kubebuilder:printcolumn:name="NAMESPACE",type=string,JSONPath=`.spec.owner.namespace`
// +kubebuilder:printcolumn:name="NAME",type=string,JSONPath=`.spec.owner.name`
// +kubebuilder:printcolumn:name="EXTERNAL-NAME",type=string,JSONPath=`.spec.ref`
// +kubebuilder:printcolumn:name="RESERVATION",type=string,JSONPath=`.metadata.labels.espalier\.dev/reservation`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type Binding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec BindingSpec `json:"spec,omitempty"`
}

// BindingList is a list of Binding.
//
// +kubebuilder:object:root=true
type BindingList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Binding `json:"items"`
}

// BindingSpec is what a Binding remembers.
type BindingSpec struct {
	Key   BindingKey   `json:"key"`
	Owner BindingOwner `json:"owner"`

	// Shared says that the managed resource only observes or updates, so that its
	// external resource may be others' as well.
	//
	// +optional
	Shared bool `json:"shared,omitempty"`

	// Mark is the random ID that the external resource is marked with, where it can
	// be.
	Mark string `json:"mark"`

	// Explicit says that somebody named the external resource before there was one
	// of ours: it may be taken on.
	//
	// +optional
	Explicit bool `json:"explicit,omitempty"`

	Phase BindingPhase `json:"phase"`

	// Ref is the identity of the external resource, once it is known. It never
	// changes by itself.
	//
	// +optional
	Ref string `json:"ref,omitempty"`

	// Attempts counts the operations that were begun.
	//
	// +optional
	Attempts int64 `json:"attempts,omitempty"`

	// AbsentBefore says that there was no external resource of the key when the
	// first creation was about to begin, so that one that has come since is ours.
	//
	// +optional
	AbsentBefore *metav1.MicroTime `json:"absentBefore,omitempty"`

	// Operation is the open operation: there is one at most.
	//
	// +optional
	Operation *BindingOperation `json:"operation,omitempty"`

	// Ended is the operation that ended last, and well: for a while the external API
	// may still show what was before it.
	//
	// +optional
	Ended *BindingEnded `json:"ended,omitempty"`

	// Doubted is when a creation was bound whose call had to be made again, so that
	// a late one may have made another resource: it is looked for once more.
	//
	// +optional
	Doubted *metav1.MicroTime `json:"doubted,omitempty"`

	// Unresolved says since when, and why, it can't be told whether a creation has
	// had its effect.
	//
	// +optional
	Unresolved *BindingUnresolved `json:"unresolved,omitempty"`

	// AbsentSince is when the external resource was first found gone.
	//
	// +optional
	AbsentSince *metav1.MicroTime `json:"absentSince,omitempty"`

	// Until is how long a tombstone keeps the key.
	//
	// +optional
	Until *metav1.MicroTime `json:"until,omitempty"`

	// Retried is the value of the annotation that last asked for an unresolved
	// creation to be tried again.
	//
	// +optional
	Retried string `json:"retried,omitempty"`
}

// BindingKey is the place that the external resource takes: see external.Key.
type BindingKey struct {
	Scope string `json:"scope"`
	Type  string `json:"type"`
	// +optional
	Name string `json:"name,omitempty"`
}

// BindingOwner is the managed resource.
type BindingOwner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// +optional
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// BindingOperation is an operation that may have been begun: it is stored before
// its call is made.
type BindingOperation struct {
	// Verb is Create, Update or Delete.
	Verb    string `json:"verb"`
	Attempt int64  `json:"attempt"`
	// Token is sent with the call and is the same whenever it is repeated.
	Token string `json:"token"`
	// Request is the frozen content of the call.
	//
	// +optional
	Request []byte `json:"request,omitempty"`
	// Generation is that of the managed resource that the request was made of.
	//
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// Resume is what the external API gave to go on with; empty until it has
	// answered.
	//
	// +optional
	Resume string `json:"resume,omitempty"`
	// Repeated says that the call was made again, because nobody had its answer.
	//
	// +optional
	Repeated bool `json:"repeated,omitempty"`
	// RepeatedAt is when it was made again last.
	//
	// +optional
	RepeatedAt *metav1.MicroTime `json:"repeatedAt,omitempty"`
	// Failed is when a creation ended badly whose call was made once, so that nothing
	// more comes of it, and what it has left can be looked for.
	//
	// +optional
	Failed *metav1.MicroTime `json:"failed,omitempty"`
	// Ref is the identity of the external resource, where the external API gave it
	// before the operation has ended.
	//
	// +optional
	Ref       string           `json:"ref,omitempty"`
	StartedAt metav1.MicroTime `json:"startedAt"`
}

// BindingEnded is an operation that has ended well.
type BindingEnded struct {
	// Verb is Create, Update or Delete.
	Verb string `json:"verb"`
	// Request is the digest of the content of its call.
	//
	// +optional
	Request string           `json:"request,omitempty"`
	At      metav1.MicroTime `json:"at"`
}

// BindingUnresolved is a creation of which nothing tells whether it has had its
// effect.
type BindingUnresolved struct {
	Since   metav1.MicroTime `json:"since"`
	Message string           `json:"message"`
}

// BindingPhase is where a binding is in its life.
//
// +kubebuilder:validation:Enum=Reserved;Creating;Bound;Updating;Deleting;Tombstone;Released;Orphaned
type BindingPhase string

// Phases of a binding.
const (
	// Reserved: the key is taken, and nothing was ever asked of the external API.
	BindingReserved BindingPhase = "Reserved"
	// Creating, Updating, Deleting: an operation is open.
	BindingCreating BindingPhase = "Creating"
	BindingUpdating BindingPhase = "Updating"
	BindingDeleting BindingPhase = "Deleting"
	// Bound: the external resource is there, or was when it was last looked at.
	BindingBound BindingPhase = "Bound"
	// Tombstone: it was deleted; the key is kept until its name may be used again.
	BindingTombstone BindingPhase = "Tombstone"
	// Released: it was let go of.
	BindingReleased BindingPhase = "Released"
	// Orphaned: the managed resource was taken away by force; the key stays taken
	// until somebody lets it go.
	BindingOrphaned BindingPhase = "Orphaned"
)
