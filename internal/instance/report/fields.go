// Package report is what the engine says in an instance's status, and how that is
// written down: one home for the fields' names, meanings and schema, for those
// who write them and for those who read them. The author's own fields are beside
// it in the same status.
//
// Pure: it decides from values alone.
package report

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
)

// Fields of an instance's status that the engine writes. State and Conditions are
// the dialect's, and always ours; an author who declares one of the others gets
// it, and the engine does without.
const (
	StateField      = "state"
	ConditionsField = "conditions"
	WaitingField    = "waiting"
	DeletionField   = "deletion"
	PruningField    = "pruning"
	SkippedField    = "skipped"
	ProblemsField   = "problems"
)

// Status is the engine's part of an instance's status.
type Status struct {
	State      v1alpha1.InstanceState
	Conditions condition.Set
	// Waiting is what the instance's resources wait for.
	Waiting []Waiting
	// Deletion is how far the deletion of the instance has come; nil while it
	// isn't being deleted.
	Deletion *Deletion
	// Pruning lists the objects that nothing wants any more and that are not gone
	// yet.
	Pruning []Blocker
	// Skipped lists the resources that are left out.
	Skipped []Skipped
	// Problems are why resources aren't as they should be.
	Problems []Problem
}

// Problem is why a resource isn't as it should be: its object can't be written, or isn't
// ready though its own status says so.
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
	// Node is the id of the resource, and By that of the one whose condition is false:
	// itself, or one that it depends on.
	Node string `json:"node"`
	By   string `json:"by"`
	// Condition is what is false, and Inputs what it read: "schema.spec.mode is off".
	Condition string   `json:"condition"`
	Inputs    []string `json:"inputs,omitempty"`
}

// Waiting is a thing that a resource waits for before it can be made or changed.
type Waiting struct {
	// Node is the id of the resource.
	Node   string `json:"node"`
	Reason string `json:"reason"`
	// On names the thing, such as vpc.status.vpcID.
	On string `json:"on"`
	// Since is when it was first found missing.
	Since Time `json:"since"`
	// Attempts is how often it had been tried when this was written.
	Attempts int64 `json:"attempts"`
}

// Policy is what becomes of the children of an instance that is deleted.
type Policy string

// Policies of deletion. By each the instance itself goes last.
const (
	// Background deletes the children, in reverse order; so does foreground.
	Background Policy = "Background"
	// Orphan leaves the children in place, without the labels of the instance.
	Orphan Policy = "Orphan"
)

// Deletion is how far the deletion of an instance has come.
type Deletion struct {
	StartedAt Time   `json:"startedAt"`
	Policy    Policy `json:"policy,omitempty"`
	// Total counts the objects that are to be removed, Removed and Remaining
	// those of them that are gone and that aren't; Percent is Removed of Total,
	// rounded down, and 100 when there is nothing to remove.
	Total     int64 `json:"total"`
	Removed   int64 `json:"removed"`
	Remaining int64 `json:"remaining"`
	Percent   int64 `json:"percent"`
	// Progress is Removed and Total in a word: "2/5".
	Progress string `json:"progress,omitempty"`
	// Wave is which wave is being removed, from 1, and Waves how many there are:
	// what was applied last goes first.
	Wave  int64 `json:"wave,omitempty"`
	Waves int64 `json:"waves,omitempty"`
	// Blocked counts what holds the deletion up; Blockers tells the first of it.
	Blocked  int64     `json:"blocked,omitempty"`
	Blockers []Blocker `json:"blockers,omitempty"`
	// Left counts objects that were let go of, because somebody asked for that, and
	// that exist still; LeftBehind tells the first that were, with kinds.
	Left       int64     `json:"left,omitempty"`
	LeftBehind []Blocker `json:"leftBehind,omitempty"`
}

// Blocker is what holds up a removal.
type Blocker struct {
	// Node is the id of the resource that made the object, if one did.
	Node string `json:"node,omitempty"`
	Hold `json:",inline"`
	// Cause is the deepest known cause, where the object is an instance that is
	// held up itself.
	Cause *Hold `json:"cause,omitempty"`
}

// Deepest is the cause at the bottom: what somebody can do something about.
func (b Blocker) Deepest() Hold {
	if b.Cause != nil {
		return *b.Cause
	}
	return b.Hold
}

// Hold is an object that isn't going, why, and since when.
type Hold struct {
	// Object is what can't be removed. Where a whole kind can't be told, it has no
	// name.
	Object  Object `json:"object"`
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	Since   Time   `json:"since"`
	// InProgress says that the object is on its way and nobody reports a problem: there is
	// nothing to do but to wait.
	InProgress bool `json:"inProgress,omitempty"`
	// Finalizers are what the object still carries, for reason Finalizer.
	Finalizers []Finalizer `json:"finalizers,omitempty"`
}

// Finalizer is a finalizer, with those who put it on, as the object's managed
// fields tell; they are the ones to take it off.
type Finalizer struct {
	Name     string   `json:"name"`
	Managers []string `json:"managers,omitempty"`
}

// Object names an object in a version of its kind.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
}

// ObjectOf names an object.
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

// String is the object as messages name it: "Bucket prod/logs", or the kind alone
// where a whole kind is meant.
func (o Object) String() string {
	if o.Name == "" {
		return "objects of kind " + o.Kind
	}
	return o.Key().String()
}

// Reason is why an object isn't going. Reasons are stable: tools match them.
type Reason string

// Reasons of blockers.
const (
	// Finalizer: the object is being deleted, and somebody's finalizer keeps it.
	HeldByFinalizer Reason = "Finalizer"
	// DeniedByWebhook: an admission webhook or policy refuses the request.
	DeniedByWebhook Reason = "DeniedByWebhook"
	// WebhookUnavailable: an admission webhook that the API server has to ask doesn't answer.
	WebhookUnavailable Reason = "WebhookUnavailable"
	// Forbidden: this controller may not make the request, or not read the kind.
	Forbidden Reason = "Forbidden"
	// Protected: somebody has asked for the object to stay.
	Protected Reason = "Protected"
	// ChildBlocked: the object is an instance, and something holds that up.
	ChildBlocked Reason = "ChildBlocked"
	// ExternalDeletion: what the object stands for in another system is not gone.
	ExternalDeletion Reason = "ExternalDeletion"
	// KindUnavailable: the kind exists and no version of it is served.
	KindUnavailable Reason = "KindUnavailable"
	// OutOfReach: the server of the object doesn't answer as it should.
	OutOfReach Reason = "OutOfReach"
)

// In status.pruning alone: the object is no problem, it only isn't gone yet.
const (
	// Deleting: the object was asked to go.
	Deleting Reason = "Deleting"
	// WaitingForOthers: what stands on the object has to go first.
	WaitingForOthers Reason = "WaitingForOthers"
)

// IsBlocker says whether the reason holds something up, other than for a moment.
func (r Reason) IsBlocker() bool { return r != Deleting && r != WaitingForOthers }

// Time is a time as the status holds it: RFC 3339 in UTC, to the millisecond, so
// that what is counted from it goes on where it stood.
type Time struct{ time.Time }

// At makes a Time of a time, as exact as it will be read back.
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
