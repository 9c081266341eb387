package cloud

import "time"

// Naming says who names the resources of a type.
type Naming string

const (
	// CallerAssigned: a create says the name; it is the ID, and nobody else's in the
	// scope. What is written as "" means it too.
	CallerAssigned Naming = "Caller"
	// ProviderAssigned: the cloud assigns the ID, as "network-00000001".
	ProviderAssigned Naming = "Provider"
)

// Tagging says what tags are good for with a type.
type Tagging string

const (
	// TagsFindable: List finds by them. What is written as "" means it too.
	TagsFindable Tagging = "Findable"
	// TagsShown: only Get shows them.
	TagsShown Tagging = "Shown"
	// TagsNone: there are none; a create with some is refused.
	TagsNone Tagging = "None"
)

// Behaviour is how the cloud treats the resources of a type. The zero value is as
// kind as a cloud can be, but for tokens: it honours none. A change is for what
// comes: operations under way end when they would have ended.
type Behaviour struct {
	Naming Naming
	// TokenTTL is how long a token is honoured after the call that brought it; 0 means
	// that tokens are ignored. Within it the same call with the same token has no effect
	// of its own and answers with the first one's operation, as that is now.
	TokenTTL time.Duration
	Tags     Tagging
	// CreateLag is for how long after a create was accepted Get and List don't show the
	// resource; DeleteLag, for how long after it was gone they still do, as it was when
	// they could last see it. Operations, references and changes never lag.
	CreateLag, DeleteLag time.Duration
	// CreateTime, UpdateTime and DeleteTime are how long operations take. What takes no
	// time is done when it is answered.
	CreateTime, UpdateTime, DeleteTime time.Duration
	// ReuseAfter is for how long after a resource was gone its name is taken, where
	// callers assign names.
	ReuseAfter time.Duration
}

func (b Behaviour) takes(v Verb) time.Duration {
	switch v {
	case VerbCreate:
		return b.CreateTime
	case VerbUpdate:
		return b.UpdateTime
	default:
		return b.DeleteTime
	}
}
