package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Binding is the durable record of one managed resource's external resource: its owner, the
// operation in flight at the external API, and what is known of the result. The controllers
// write it before each call that changes something, and read it after a crash. Only the
// controllers write it, no policy of the managed resource applies to it, and it has no owner
// reference, so that nothing deletes it with the managed resource.
//
// Its name is computed from the key of the external resource if the managed resource names
// that, so that two managed resources cannot have the same external resource. If the external
// API assigns identities, there are two Bindings: one named by the managed resource's UID and,
// once the identity is known, one that reserves the key of the identity and has the label
// espalier.dev/reservation.
//
// +kubebuilder:object:root=true
// +kubebuilder:metadata:annotations="espalier.dev/schema=2"
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

// BindingSpec is what a Binding records.
type BindingSpec struct {
	Key   BindingKey   `json:"key"`
	Owner BindingOwner `json:"owner"`

	// Shared is true if the managed resource only observes or updates, so that other
	// managed resources may have the same external resource.
	//
	// +optional
	Shared bool `json:"shared,omitempty"`

	// Mark is the random ID that the external resource is marked with, if the external API
	// supports marks.
	Mark string `json:"mark"`

	// Explicit is true if the managed resource named an external resource before the
	// controllers created one: an existing one may be adopted.
	//
	// +optional
	Explicit bool `json:"explicit,omitempty"`

	// StaleName is an external name that names no external resource to adopt, although the
	// annotation has it: the external resource is gone, or a retry was requested instead.
	//
	// +optional
	StaleName string `json:"staleName,omitempty"`

	Phase BindingPhase `json:"phase"`

	// Ref is the identity of the external resource, once it is known. The controllers never
	// change it.
	//
	// +optional
	Ref string `json:"ref,omitempty"`

	// Incarnation tells the external resource from others that have its identity before or
	// after it, if the external API has such a value.
	//
	// +optional
	Incarnation string `json:"incarnation,omitempty"`

	// Attempts counts the operations that have begun.
	//
	// +optional
	Attempts int64 `json:"attempts,omitempty"`

	// AbsentBefore is when no external resource of the key existed, before the first creation
	// began: one that exists since then was created by this Binding.
	//
	// +optional
	AbsentBefore *metav1.MicroTime `json:"absentBefore,omitempty"`

	// Operation is the operation in flight. There is at most one.
	//
	// +optional
	Operation *BindingOperation `json:"operation,omitempty"`

	// Ended is the last operation that succeeded: the external API may show the state before
	// it for a while.
	//
	// +optional
	Ended *BindingEnded `json:"ended,omitempty"`

	// WriteOnlyDigest is the digest of the write-only values that the last creation or update that succeeded has
	// sent, of a kind whose external API does not return them: if they are others now, they are sent again.
	//
	// +optional
	WriteOnlyDigest string `json:"writeOnlyDigest,omitempty"`

	// Doubted is when a creation succeeded whose call was repeated. A late call may have
	// created a second resource, so the controllers search for one once more.
	//
	// +optional
	Doubted *metav1.MicroTime `json:"doubted,omitempty"`

	// Unresolved is since when, and why, it is unknown whether a creation had an effect.
	//
	// +optional
	Unresolved *BindingUnresolved `json:"unresolved,omitempty"`

	// AbsentSince is when the external resource was first observed to be gone.
	//
	// +optional
	AbsentSince *metav1.MicroTime `json:"absentSince,omitempty"`

	// Until is when a tombstone expires, which reserves the key.
	//
	// +optional
	Until *metav1.MicroTime `json:"until,omitempty"`

	// Leader is the leader that last wrote the Binding, if the controllers elect one. Another
	// process may continue only if it became the leader later.
	//
	// +optional
	Leader *BindingLeader `json:"leader,omitempty"`

	// Retried is the value of the annotation that last requested a retry of an unresolved
	// creation.
	//
	// +optional
	Retried string `json:"retried,omitempty"`
}

// BindingLeader is one leadership of one process.
type BindingLeader struct {
	// Holder is the process, as the Lease names its holder.
	Holder string `json:"holder"`
	// Epoch is the number of the leadership, as the Lease counts its transitions.
	Epoch int64 `json:"epoch"`
}

// BindingKey identifies the external resource among all others.
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

// BindingOperation is an operation whose call may have been made: it is stored before the
// call.
type BindingOperation struct {
	// Verb is Create, Update or Delete.
	Verb    string `json:"verb"`
	Attempt int64  `json:"attempt"`
	// Token is the idempotency token of the call: repeated calls have the same.
	Token string `json:"token"`
	// Request is the content of the call, which repeated calls have as well.
	//
	// +optional
	Request []byte `json:"request,omitempty"`
	// Generation is the generation of the managed resource that Request was computed from.
	//
	// +optional
	Generation int64 `json:"generation,omitempty"`
	// WriteOnlyDigest is the digest of the write-only values in Request.
	//
	// +optional
	WriteOnlyDigest string `json:"writeOnlyDigest,omitempty"`
	// Resume is the resume token of the external API; empty until it has responded.
	//
	// +optional
	Resume string `json:"resume,omitempty"`
	// Repeated is true if the call was made again because its response was lost.
	//
	// +optional
	Repeated bool `json:"repeated,omitempty"`
	// RepeatedAt is when the call was last made again.
	//
	// +optional
	RepeatedAt *metav1.MicroTime `json:"repeatedAt,omitempty"`
	// Failed is when a creation failed whose call was made once: it has no more effects, and
	// the controllers can search for what it has left behind.
	//
	// +optional
	Failed *metav1.MicroTime `json:"failed,omitempty"`
	// Ref is the identity of the external resource, if the external API returned it before
	// the end of the operation.
	//
	// +optional
	Ref string `json:"ref,omitempty"`
	// Imported is true if an import has restored the operation. Its token and its request are
	// those of an archive, so that its call is not made again: the controllers observe what it
	// has done.
	//
	// +optional
	Imported  bool             `json:"imported,omitempty"`
	StartedAt metav1.MicroTime `json:"startedAt"`
}

// BindingEnded is an operation that succeeded.
type BindingEnded struct {
	// Verb is Create, Update or Delete.
	Verb string `json:"verb"`
	// Request is the digest of the content of the call.
	//
	// +optional
	Request string           `json:"request,omitempty"`
	At      metav1.MicroTime `json:"at"`
	// Reverted is how many updates in a row, beside this one, had the same content: what they set was
	// changed back each time.
	//
	// +optional
	Reverted int64 `json:"reverted,omitempty"`
}

// BindingUnresolved is a creation of which it is unknown whether it had an effect.
type BindingUnresolved struct {
	Since   metav1.MicroTime `json:"since"`
	Message string           `json:"message"`
}

// BindingPhase is the phase of a binding.
//
// +kubebuilder:validation:Enum=Reserved;Creating;Bound;Updating;Deleting;Tombstone;Released;Orphaned
type BindingPhase string

// Phases of a binding.
const (
	// Reserved: the key is reserved, and no call has been made to the external API.
	BindingReserved BindingPhase = "Reserved"
	// Creating, Updating, Deleting: an operation is in flight.
	BindingCreating BindingPhase = "Creating"
	BindingUpdating BindingPhase = "Updating"
	BindingDeleting BindingPhase = "Deleting"
	// Bound: the external resource existed when it was last observed.
	BindingBound BindingPhase = "Bound"
	// Tombstone: it was deleted; the key is reserved until its name may be used again.
	BindingTombstone BindingPhase = "Tombstone"
	// Released: the external resource was left in place, and the key is free.
	BindingReleased BindingPhase = "Released"
	// Orphaned: the managed resource was removed by force; the key stays reserved until a
	// person deletes the Binding.
	BindingOrphaned BindingPhase = "Orphaned"
)
