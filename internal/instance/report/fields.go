// Package report defines the part of an instance's status that the engine writes: its fields, their meaning and their
// schema, for writers and readers of it. The same status holds the author's own fields. See
// docs/design/0003-waiting-readiness-and-statuses.md.
//
// Pure: it decides from values alone.
package report

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
)

// Names of the engine's status fields. State and Conditions are the dialect's and always ours. An author who declares
// another of them replaces it, and the engine doesn't write it.
const (
	StateField      = "state"
	ConditionsField = "conditions"
	WaitingField    = "waiting"
	DeletionField   = "deletion"
	PruningField    = "pruning"
	SkippedField    = "skipped"
	ProblemsField   = "problems"
	// ObservedGenerationField is what kstatus compares with the generation of an object.
	ObservedGenerationField = "observedGeneration"
)

// Status is the engine's part of an instance's status.
type Status struct {
	State      v1alpha1.InstanceState
	Conditions condition.Set
	// ObservedGeneration is the generation of the instance that the status is of; 0 leaves what the status has.
	ObservedGeneration int64
	// Waiting is what the instance's resources wait for.
	Waiting []Waiting
	// Deletion is the progress of the instance's deletion; nil while it isn't being deleted.
	Deletion *Deletion
	// Pruning lists the objects that are no longer desired and not gone yet.
	Pruning []Blocker
	// Skipped lists the resources that are left out.
	Skipped []Skipped
	// Problems are why resources can't be applied or aren't ready.
	Problems []Problem
}

// Problem is why a resource can't be applied, or isn't ready although its own status says so.
type Problem struct {
	// Node is the id of the resource.
	Node    string `json:"node"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Since is when it was first found.
	Since Time `json:"since"`
}

// Skipped is a resource that is left out, and why.
type Skipped struct {
	// Node is the id of the resource, and By the id of the resource with the false condition: itself, or one that it
	// depends on.
	Node string `json:"node"`
	By   string `json:"by"`
	// Condition is the false expression, and Inputs the values that it read: "schema.spec.mode
	// is off".
	Condition string   `json:"condition"`
	Inputs    []string `json:"inputs,omitempty"`
}

// Waiting is something that a resource waits for before it can be created or updated.
type Waiting struct {
	// Node is the id of the resource.
	Node   string `json:"node"`
	Reason string `json:"reason"`
	// On names it, such as vpc.status.vpcID.
	On string `json:"on"`
	// Since is when it was first found missing.
	Since Time `json:"since"`
	// Attempts is how often it had been tried when this was written.
	Attempts int64 `json:"attempts"`
}

// Policy is the propagation policy of an instance's deletion.
type Policy string

// Propagation policies. With each, the instance itself is removed last.
const (
	// Background deletes the children in reverse order; so does foreground deletion.
	Background Policy = "Background"
	// Orphan leaves the children in place, without the instance's labels.
	Orphan Policy = "Orphan"
)

// Deletion is the progress of an instance's deletion.
type Deletion struct {
	StartedAt Time   `json:"startedAt"`
	Policy    Policy `json:"policy,omitempty"`
	// Total counts the objects that are to be removed, Removed the ones that are gone and Remaining the ones that
	// aren't. Percent is Removed of Total, rounded down, and 100 if there is nothing to remove.
	Total     int64 `json:"total"`
	Removed   int64 `json:"removed"`
	Remaining int64 `json:"remaining"`
	Percent   int64 `json:"percent"`
	// Progress is Removed and Total as text: "2/5".
	Progress string `json:"progress,omitempty"`
	// Wave is the number of the wave that is being removed, from 1, and Waves how many there
	// are: what was applied last is in the first.
	Wave  int64 `json:"wave,omitempty"`
	Waves int64 `json:"waves,omitempty"`
	// Blocked counts the blockers of the deletion; Blockers lists the first of them.
	Blocked  int64     `json:"blocked,omitempty"`
	Blockers []Blocker `json:"blockers,omitempty"`
	// Left counts objects that were left behind by force and may still exist; LeftBehind lists
	// the first of them, with kinds.
	Left       int64     `json:"left,omitempty"`
	LeftBehind []Blocker `json:"leftBehind,omitempty"`
}

// Blocker is an object that blocks a removal.
type Blocker struct {
	// Node is the id of the resource that created the object, if one did.
	Node          string `json:"node,omitempty"`
	BlockedObject `json:",inline"`
	// Cause is the root cause, as far as it is known, if the object is an instance that is
	// blocked itself.
	Cause *BlockedObject `json:"cause,omitempty"`
}

// RootCause is the object at the end of the chain of causes: the one that a user can act on.
func (b Blocker) RootCause() BlockedObject {
	if b.Cause != nil {
		return *b.Cause
	}
	return b.BlockedObject
}

// BlockedObject is an object that is not removed yet, with the reason and its beginning.
type BlockedObject struct {
	// Object is the object that can't be removed. It has no name if a whole kind can't be read.
	Object  Object `json:"object"`
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	Since   Time   `json:"since"`
	// InProgress says that the object is being deleted without a reported problem: there is
	// nothing to do but to wait.
	InProgress bool `json:"inProgress,omitempty"`
	// Finalizers are the finalizers that the object still has, for reason Finalizer.
	Finalizers []Finalizer `json:"finalizers,omitempty"`
}

// Finalizer is a finalizer with the managers that added it, by the object's managed fields: they
// are the ones to remove it.
type Finalizer struct {
	Name     string   `json:"name"`
	Managers []string `json:"managers,omitempty"`
}

// ExternalFinalizer is added to managed resources by the runtimes of their providers, and
// removed when the external resource is gone.
const ExternalFinalizer = "finalizer.managedresource.crossplane.io"

// HasExternalResource reports whether the object is a managed resource with an external resource that its provider has
// not deleted.
func (h BlockedObject) HasExternalResource() bool {
	return h.Reason == ExternalDeletion || slices.ContainsFunc(h.Finalizers, func(f Finalizer) bool { return f.Name == ExternalFinalizer })
}

// Object identifies an object in a version of its kind.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
}

// ObjectOf identifies an object.
func ObjectOf(o interface {
	metav1.Object
	GroupVersionKind() schema.GroupVersionKind
}) Object {
	gvk := o.GroupVersionKind()
	return Object{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// Key is the object's key.
func (o Object) Key() object.Key {
	gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
	return object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: o.Namespace, Name: o.Name}
}

// String is the object as messages name it: "Bucket prod/logs", or the kind alone for a whole
// kind.
func (o Object) String() string {
	if o.Name == "" {
		return "objects of kind " + o.Kind
	}
	return o.Key().String()
}

// Reason is why an object isn't removed yet. Reasons are stable: tools match them.
type Reason string

// Reasons of blockers.
const (
	// HeldByFinalizer: the object is being deleted, and a finalizer of another controller keeps
	// it.
	HeldByFinalizer Reason = "Finalizer"
	// DeniedByWebhook: an admission webhook or policy denies the request.
	DeniedByWebhook Reason = "DeniedByWebhook"
	// WebhookUnavailable: an admission webhook that the API server has to call doesn't answer.
	WebhookUnavailable Reason = "WebhookUnavailable"
	// Forbidden: RBAC forbids this controller the request, or reading the kind.
	Forbidden Reason = "Forbidden"
	// Protected: an annotation, a usage or a deletion policy keeps the object.
	Protected Reason = "Protected"
	// ChildBlocked: the object is an instance that is blocked itself.
	ChildBlocked Reason = "ChildBlocked"
	// ExternalDeletion: the external resource of the object still exists.
	ExternalDeletion Reason = "ExternalDeletion"
	// KindUnavailable: the kind exists and no version of it is served.
	KindUnavailable Reason = "KindUnavailable"
	// OutOfReach: the server or the controller of the object doesn't respond as expected.
	OutOfReach Reason = "OutOfReach"
)

// Reasons in status.pruning only: nothing is wrong, the object is only not gone yet.
const (
	// Deleting: the deletion of the object was requested.
	Deleting Reason = "Deleting"
	// WaitingForOthers: the object's dependents are deleted first.
	WaitingForOthers Reason = "WaitingForOthers"
)

// IsBlocker reports whether the reason blocks a removal, other than for a moment.
func (r Reason) IsBlocker() bool { return r != Deleting && r != WaitingForOthers }

// Time is a time as the status holds it: RFC 3339 in UTC, in milliseconds, so timeouts are counted from the same time
// after a restart.
type Time struct{ time.Time }

// At converts a time, truncated to the precision that it is read back with.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

const timeFormat = "2006-01-02T15:04:05.000Z"

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(timeFormat) + `"`), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(raw []byte) error {
	at, err := time.Parse(`"`+time.RFC3339+`"`, string(raw))
	t.Time = at.UTC()
	return err
}
