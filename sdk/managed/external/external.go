// Package external holds what a provider's client and the runtime of managed
// resources say to each other about an external resource, as plain values: how it
// is named, what was seen of it, what is to be done and what came of that.
//
// Pure: it decides from values alone.
package external

import "time"

// Presence is whether an external resource is there. The zero value is Unknown,
// from which nothing follows: nothing is created and nothing is deleted.
type Presence int

// Presences.
const (
	Unknown Presence = iota
	// Absent: there is none, for certain.
	Absent
	// Present: there is one. It may not be ready.
	Present
	// Deleting: there is one that is being deleted.
	Deleting
)

// String is the presence in a word.
func (p Presence) String() string {
	return [...]string{"Unknown", "Absent", "Present", "Deleting"}[p]
}

// Naming is who names an external resource.
type Naming int

// Namings.
const (
	// CallerAssigned: whoever creates it says its name.
	CallerAssigned Naming = iota
	// ProviderAssigned: the external API answers a creation with an identity.
	ProviderAssigned
)

// Key is the place that an external resource takes: there can be one of a type
// and name in a scope. Managed resources that have the same key are after the same
// external resource, whatever their own names and namespaces are.
type Key struct {
	// Scope is the account, region, server or whatever else names are unique in.
	Scope string
	Type  string
	// Name is empty while the external API has yet to assign one.
	Name string
}

// Ref is the identity by which an external resource is found for good: what the
// annotation crossplane.io/external-name holds.
type Ref string

// Mark is what is put on an external resource to know it again, as a tag or
// comment, where it can carry one. One without an ID is none: nothing is put on.
type Mark struct {
	// ID is random and belongs to one binding of a managed resource.
	ID string
	// Owner names the managed resource for people, and for finding it again when
	// its binding is lost: "kind.group/namespace/name@installation".
	Owner string
}

// Is says whether it is the same mark.
func (m Mark) Is(other *Mark) bool { return other != nil && m.ID != "" && m.ID == other.ID }

// Caps are what an external API can do for a type, which decides how a creation
// is resolved whose answer was lost. They don't change while a program runs.
type Caps struct {
	Naming Naming
	// TokenTTL is for how long the API answers a repeated creation with the same
	// token and the same request by the first one's resource; 0 if it knows no
	// tokens.
	TokenTTL time.Duration
	// Findable says that Find lists resources by their mark.
	Findable bool
	// Marked says that resources carry their mark from their creation on, so that
	// one without it was made by somebody else. A mark that is put on later counts
	// as soon as it is seen.
	Marked bool
	// Settle is how long after a change Observe and Find may still tell of before;
	// 0 for an API that is consistent.
	Settle time.Duration
	// Reuse is for how long after a deletion the name must not be taken again.
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

// Request is the frozen content of a call, in whatever encoding the client likes.
// It is stored before the call is made, and is the same bytes each time it is
// repeated. It never holds a secret: those go in as the name and the resource
// version of the object that has them.
type Request []byte

// Intent is a call that is to be made. It has been stored durably before Begin is
// called with it.
type Intent struct {
	Verb Verb
	// Attempt counts from 1 the creations, updates or deletions of this binding.
	Attempt int64
	// Token is random, and the same whenever this attempt is repeated: at most 64
	// ASCII letters, digits and dashes.
	Token string
	Mark  Mark
	Key   Key
	// Ref is empty for a creation.
	Ref     Ref
	Request Request
}

// Op is an operation as it stands.
type Op struct {
	// Done says that it has ended, with Err or without.
	Done bool
	// Resume is what Poll needs to go on, also in another process. It holds no
	// secret.
	Resume string
	// Ref is the resource's identity, as soon as it is known.
	Ref Ref
	// RetryAfter is when to poll again; 0 leaves it to the runtime.
	RetryAfter time.Duration
	// State is a word about how far it is, for people, such as CREATING.
	State string
	Err   *OpError
}

// Class is what an error says of the effect of a call.
type Class int

// Classes. The zero value promises nothing.
const (
	// Ambiguous: it may have had its effect, or have it yet.
	Ambiguous Class = iota
	// Rejected: the API guarantees that it had none and will have none.
	Rejected
	// Failed: it has ended badly and won't go on; there may be a resource.
	Failed
)

// OpError is why a call or an operation failed.
type OpError struct {
	Class Class
	// Code is the API's own, such as DependencyViolation.
	Code    string
	Message string
	// Mismatch says that the token was used before with another request.
	Mismatch bool
	// RetryAfter is what the API asks for; 0 leaves it to the runtime.
	RetryAfter time.Duration
}

// Error is the code and the message.
func (e *OpError) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// Answer is a yes, a no, or neither.
type Answer int

// Answers. The zero value is that it can't be told.
const (
	CannotTell Answer = iota
	Yes
	No
)

// Observation is what was seen of an external resource.
type Observation struct {
	Presence Presence
	// Ref is its identity.
	Ref Ref
	// Mark is the mark that it carries; nil for none, and where it can't.
	Mark *Mark
	// Created is when it was created, if the API tells.
	Created time.Time
	// UpToDate says whether it is as the managed resource wants it. Where that
	// can't be told, it isn't changed.
	UpToDate Answer
	// Diff tells for people what is different. It holds no secret.
	Diff string
	// Ready says whether it can be used; State and Message are for people.
	Ready   Answer
	State   string
	Message string
	// AtProvider is what status.atProvider is to hold, as a JSON object.
	AtProvider map[string]any
	// LateInit is what the API has chosen for fields of spec.forProvider that are
	// not set, as a JSON object of that form.
	LateInit map[string]any
	// Connection is what is needed to connect, for the connection secret.
	Connection map[string][]byte
}
