package cloud

import "time"

// Naming says who names the resources of a type.
type Naming string

const (
	// CallerAssigned: a create says the name; it is the ID, and nobody else's in the
	// scope. What is written as "" means it too.
	CallerAssigned Naming = "Caller"
	// ProviderAssigned: the cloud assigns the ID, as "net-00000001". A name is a text
	// like any other.
	ProviderAssigned Naming = "Provider"
)

// Tagging says what tags are good for with a type.
type Tagging string

const (
	// TagsFindable: everybody shows them, and List finds by them. What is written as ""
	// means it too.
	TagsFindable Tagging = "Findable"
	// TagsShown: only Get shows them. List neither shows them nor finds by them.
	TagsShown Tagging = "Shown"
	// TagsNone: there are none; whoever sets some is refused.
	TagsNone Tagging = "None"
)

// Behaviour is how the cloud treats the resources of a type. The zero value is as
// kind as a cloud can be, but for tokens: it honours none. A change is for what
// comes: operations under way end when they would have ended, and resources keep
// their IDs.
//
// No duration is negative or longer than a hundred years.
type Behaviour struct {
	Naming Naming `json:"naming,omitempty"`
	// TokenTTL is how long a token is honoured after the call that brought it; 0 means
	// that tokens are taken and forgotten. Within it the same call with the same token
	// has no effect of its own and answers with the first one's operation, as that is
	// now, even if the resource has gone again.
	TokenTTL time.Duration `json:"tokenTTL,omitempty"`
	Tags     Tagging       `json:"tags,omitempty"`
	// TagsFixed means that tags are set by the create and by nothing later.
	TagsFixed bool `json:"tagsFixed,omitempty"`
	// CreateLag is for how long after a create was accepted Get and List don't show the
	// resource; DeleteLag, for how long after it was gone they still do, as it was when
	// they could last see it. Operations, references and changes never lag.
	CreateLag time.Duration `json:"createLag,omitempty"`
	DeleteLag time.Duration `json:"deleteLag,omitempty"`
	// CreateTime, UpdateTime and DeleteTime are how long operations take. What takes no
	// time is done when it is answered.
	CreateTime time.Duration `json:"createTime,omitempty"`
	UpdateTime time.Duration `json:"updateTime,omitempty"`
	DeleteTime time.Duration `json:"deleteTime,omitempty"`
	// ReuseAfter is for how long after a resource was gone its name is taken, where
	// callers assign names.
	ReuseAfter time.Duration `json:"reuseAfter,omitempty"`
	// Quota is how many resources a scope may hold, 0 for any number.
	Quota int `json:"quota,omitempty"`
	// Forget is for how long after its end an operation can be asked for; 0 means a
	// day. One that a token stands for stays as long as the token.
	Forget time.Duration `json:"forget,omitempty"`
}

const longest = 100 * 365 * 24 * time.Hour

func (b Behaviour) callerNames() bool { return b.Naming != ProviderAssigned }
func (b Behaviour) findable() bool    { return b.Tags != TagsShown && b.Tags != TagsNone }

func (b Behaviour) forget() time.Duration {
	if b.Forget == 0 {
		return 24 * time.Hour
	}
	return b.Forget
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

func (b Behaviour) check() error {
	switch b.Naming {
	case "", CallerAssigned, ProviderAssigned:
	default:
		return invalid("naming", "no %q", b.Naming)
	}
	switch b.Tags {
	case "", TagsFindable, TagsShown, TagsNone:
	default:
		return invalid("tags", "no %q", b.Tags)
	}
	if b.Quota < 0 {
		return invalid("quota", "%d is negative", b.Quota)
	}
	return checkDurations(b.TokenTTL, b.CreateLag, b.DeleteLag, b.CreateTime, b.UpdateTime, b.DeleteTime, b.ReuseAfter, b.Forget)
}

func checkDurations(all ...time.Duration) error {
	for _, d := range all {
		if d < 0 || d > longest {
			return invalid("duration", "%s is not between 0 and %s", d, longest)
		}
	}
	return nil
}

// Behaviour is how the cloud treats a type now.
func (c *Cloud) Behaviour(t Type) Behaviour {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.world.behaviour(t)
}

// SetBehaviour says how the cloud treats a type from now on, over restarts as well.
// It is refused with InvalidParameter if the type or the behaviour makes no sense.
func (c *Cloud) SetBehaviour(t Type, b Behaviour) error {
	return c.steer(func(w *world, _ time.Time) error { return w.setBehaviour(t, b) })
}

// treatment is a type's behaviour as it is kept.
type treatment struct {
	Type      Type      `json:"type"`
	Behaviour Behaviour `json:"behaviour"`
}

func (t treatment) id() string { return string(t.Type) }

func (w *world) behaviour(t Type) Behaviour { return w.treatments.rows[string(t)].Behaviour }

func (w *world) setBehaviour(t Type, b Behaviour) error {
	if !t.known() {
		return invalid("type", "no %q", t)
	}
	if err := b.check(); err != nil {
		return err
	}
	if w.behaviour(t) != b {
		w.treatments.put(treatment{t, b})
	}
	return nil
}
