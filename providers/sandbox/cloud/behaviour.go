package cloud

import "time"

// Naming is which side names the resources of a type.
type Naming string

const (
	// CallerAssigned: a create has the name, which is the ID and unique in the scope. It is
	// the default for "".
	CallerAssigned Naming = "Caller"
	// ProviderAssigned: the cloud assigns the ID, such as "network-00000001".
	ProviderAssigned Naming = "Provider"
)

// Tagging is how a type supports tags.
type Tagging string

const (
	// TagsFindable: List finds resources by tags. It is the default for "".
	TagsFindable Tagging = "Findable"
	// TagsShown: Get returns them, List does not find resources by them.
	TagsShown Tagging = "Shown"
	// TagsNone: a create with tags is refused.
	TagsNone Tagging = "None"
)

// Behaviour is how the cloud behaves for a type. The zero value is synchronous and consistent,
// and ignores tokens. A change applies to later calls: running operations end as planned.
type Behaviour struct {
	Naming Naming
	// TokenTTL is how long a token is recognized after its first call; 0 if tokens are
	// ignored. Within that time, the same call with the same token has no effect of its own,
	// and returns the first one's operation in its current state.
	TokenTTL time.Duration
	Tags     Tagging
	// CreateLag is how long after an accepted create Get and List do not return the resource
	// yet. DeleteLag is how long after its deletion they still return it, in its last state.
	// Operations, references and changes never lag.
	CreateLag, DeleteLag time.Duration
	// CreateTime, UpdateTime and DeleteTime are how long operations take. With 0, the
	// operation is done when the call returns.
	CreateTime, UpdateTime, DeleteTime time.Duration
	// ReuseAfter is how long after a deletion the name cannot be used again, if callers assign
	// names.
	ReuseAfter time.Duration
}

func (b Behaviour) duration(v Verb) time.Duration {
	switch v {
	case VerbCreate:
		return b.CreateTime
	case VerbUpdate:
		return b.UpdateTime
	default:
		return b.DeleteTime
	}
}
