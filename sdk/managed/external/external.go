// Package external holds the values that a provider's client and the runtime of managed
// resources exchange about an external resource: its key and identity, observations,
// calls and their outcomes.
//
// Pure: it decides from values alone.
package external

import "time"

// Presence is whether an external resource exists. While it is Unknown, the zero value,
// nothing is created or deleted.
type Presence int

// Presences.
const (
	Unknown Presence = iota
	// Absent: it certainly does not exist.
	Absent
	// Present: it exists, ready or not.
	Present
	// Deleting: it exists and is being deleted.
	Deleting
)

// String returns the name of the presence.
func (p Presence) String() string {
	return [...]string{"Unknown", "Absent", "Present", "Deleting"}[p]
}

// Naming is which side chooses the name of an external resource.
type Naming int

// Namings.
const (
	// CallerAssigned: the caller chooses the name when it creates the resource.
	CallerAssigned Naming = iota
	// ProviderAssigned: the external API returns an identity when it creates the resource.
	ProviderAssigned
)

// Key identifies an external resource: there is at most one of a type and name in a scope.
// Managed resources with the same key stand for the same external resource, whatever their
// own names and namespaces are.
type Key struct {
	// Scope is the account, region, server or whatever else names are unique in.
	Scope string
	Type  string
	// Name is empty until the external API has assigned one.
	Name string
}

// Ref is the permanent identity of an external resource, as in the annotation
// crossplane.io/external-name.
type Ref string

// Mark is put on an external resource, as a tag or comment, to recognize it later. A mark
// without an ID is not put on.
type Mark struct {
	// ID is random and belongs to one binding of a managed resource.
	ID string
	// Owner names the managed resource, for people and for a search when its binding is
	// lost: "kind.group/namespace/name@installation".
	Owner string
	// Holder is what an external resource belongs to that is no managed resource's, for messages:
	// a client sets it in an observation of a resource that it protects. It is never a text that
	// was read from the external API.
	Holder string
}

// Is reports whether both are the same mark. Marks without an ID are never the same.
func (m Mark) Is(other *Mark) bool { return other != nil && m.ID != "" && m.ID == other.ID }

// Caps are the capabilities of an external API for a type. They decide how a creation is
// resolved if its answer was lost, and do not change while a program runs.
type Caps struct {
	Naming Naming
	// TokenTTL is how long the API recognizes a repeated creation by its token and returns
	// the first call's resource; 0 if it has no such tokens.
	TokenTTL time.Duration
	// Findable reports whether Find can list resources by their mark.
	Findable bool
	// Marked reports whether resources carry their mark from their creation on, so one without it was created by
	// another client. A mark that is put on later counts as soon as it is observed.
	Marked bool
	// Settle is how long after a change Observe and Find may still return the former state;
	// 0 for a consistent API.
	Settle time.Duration
	// Reuse is how long after a deletion the name must not be used again.
	Reuse time.Duration
}

// Verb is what an operation does.
type Verb string

// Verbs.
const (
	Create Verb = "Create"
	Update Verb = "Update"
	Delete Verb = "Delete"
)

// Request is the content of a call, in an encoding of the client's choice. It is stored
// before the call is made, and a repeated call has the same bytes. It must not contain a secret,
// only the name and resource version of the object that does.
type Request []byte

// Intent is a call to make. It is stored durably before Begin is called with it.
type Intent struct {
	Verb Verb
	// Attempt counts from 1 the creations, updates or deletions of this binding.
	Attempt int64
	// Token is random, and the same each time this attempt is repeated. It has at most 64
	// ASCII letters, digits and dashes.
	Token string
	Mark  Mark
	Key   Key
	// Ref is empty for a creation.
	Ref     Ref
	Request Request
}

// Op is the state of an operation.
type Op struct {
	// Done reports whether the operation has ended: failed if Err is set, otherwise
	// successfully.
	Done bool
	// Resume is what Poll needs to continue, possibly in another process. It contains no
	// secret.
	Resume string
	// Ref is the resource's identity, as soon as it is known.
	Ref Ref
	// RetryAfter is when to poll again; 0 leaves it to the runtime.
	RetryAfter time.Duration
	// State is the API's name of the state, such as CREATING, for messages.
	State string
	Err   *OpError
}

// Class is what is known about the effect of a failed call.
type Class int

// Classes. The zero value promises nothing.
const (
	// Ambiguous: the call may have had its effect, or may have it later.
	Ambiguous Class = iota
	// Rejected: the API guarantees that the call had no effect and will have none.
	Rejected
	// Failed: the operation has failed and will not continue; it may have left a resource.
	Failed
)

// OpError is why a call or an operation failed.
type OpError struct {
	Class Class
	// Code is the API's error code, such as DependencyViolation.
	Code    string
	Message string
	// Mismatch reports whether the token was used before with another request.
	Mismatch bool
	// RetryAfter is the delay that the API asks for; 0 leaves it to the runtime.
	RetryAfter time.Duration
}

// Error returns the code and the message.
func (e *OpError) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// Answer is Yes, No or unknown.
type Answer int

// Answers. The zero value, CannotTell, stands for unknown.
const (
	CannotTell Answer = iota
	Yes
	No
)

// Observation is the observed state of an external resource.
type Observation struct {
	Presence Presence
	// Ref is its identity.
	Ref Ref
	// Mark is the mark that it carries; nil if it has none or cannot carry one.
	Mark *Mark
	// Created is when it was created, if the API shows that.
	Created time.Time
	// Incarnation is a value that another resource of the same identity has not, if the API
	// has one, such as the OID of a role of PostgreSQL. With it, a resource that was deleted
	// and created again by another client under the same name is recognized: it is neither
	// changed nor deleted, unless it carries the mark.
	Incarnation string
	// UpToDate reports whether it is as the managed resource specifies. With CannotTell, it
	// is not updated.
	UpToDate Answer
	// Diff describes the difference, for messages. It contains no secret.
	Diff string
	// Ready reports whether it can be used; State and Message explain that.
	Ready   Answer
	State   string
	Message string
	// AtProvider becomes status.atProvider; a JSON object.
	AtProvider map[string]any
	// LateInit holds the values that the API has chosen for unset fields of
	// spec.forProvider, as a JSON object of the same form.
	LateInit map[string]any
	// Connection holds the connection details for the connection secret.
	Connection map[string][]byte
	// AdoptionDenied is why an external resource that is not the managed resource's own may
	// be neither adopted nor shared with its owner; empty if it may.
	AdoptionDenied string
}

// Owner is the managed resource that an external resource belongs to.
type Owner struct{ APIVersion, Kind, Namespace, Name string }

// NotAllowedError is returned by Connect or Observe if the provider configuration does not
// allow what the managed resource specifies. It becomes the message of the condition Synced,
// with the reason NotAllowed: it names the configuration, the field, and what to do.
type NotAllowedError struct{ Message string }

// Error returns the message.
func (e *NotAllowedError) Error() string { return e.Message }
