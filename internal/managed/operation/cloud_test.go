package operation_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// cloud is the least of an external API that a decision can go wrong about: it
// names or is told names, knows tokens or not, shows marks or not, and what it
// shows may lag behind.
type cloud struct {
	caps   external.Caps
	now    func() time.Time
	things []*thing
	tokens map[string]*thing
	// deaf says which calls end well and do nothing.
	deaf external.Verb
	// denies says that a look shows nothing of what a search does.
	denies bool
	// invalid is a request whose creation is taken on and fails, and fails how many
	// more do, whatever they ask for. Leaves says that something is there all the same,
	// and early that its identity is told before.
	invalid       string
	fails         int
	leaves, early bool
	// busy is how many calls from now on are refused, for now.
	busy int
	// async is how long operations take; 0 for at once.
	async time.Duration
	// calls counts all calls, changes those that were to change something, creations
	// those creations that had an effect.
	calls, changes, creations int
	// harm lists what must never happen.
	harm []string
}

type thing struct {
	ref     external.Ref
	mark    *external.Mark
	created time.Time
	request string
	was     string // the request before the last change
	changed time.Time
	readyAt time.Time
	deleted time.Time // zero while it isn't being deleted
	goneAt  time.Time
}

func (c *cloud) alive() []*thing {
	var out []*thing
	for _, t := range c.things {
		if t.deleted.IsZero() || c.now().Before(t.goneAt) {
			out = append(out, t)
		}
	}
	return out
}

// shown are the things that the API shows: it lags by its time to settle.
func (c *cloud) shown() []*thing {
	var out []*thing
	for _, t := range c.things {
		seen := c.now().Sub(t.created) >= c.caps.Settle
		gone := !t.deleted.IsZero() && c.now().Sub(t.goneAt) >= c.caps.Settle
		if seen && !gone {
			out = append(out, t)
		}
	}
	return out
}

func (c *cloud) observe(ref external.Ref, want string) external.Observation {
	c.calls++
	for _, t := range c.shown() {
		if t.ref == ref && !c.denies {
			return c.seen(t, want)
		}
	}
	return external.Observation{Presence: external.Absent}
}

func (c *cloud) seen(t *thing, want string) external.Observation {
	o := external.Observation{Presence: external.Present, Ref: t.ref, Created: t.created, UpToDate: external.No, Ready: external.Yes}
	if c.caps.Marked {
		o.Mark = t.mark
	}
	shows := t.request
	if c.now().Sub(t.changed) < c.caps.Settle {
		shows = t.was
	}
	if shows == want {
		o.UpToDate = external.Yes
	}
	if !t.deleted.IsZero() && c.now().Sub(t.deleted) >= c.caps.Settle {
		o.Presence = external.Deleting
	}
	if c.now().Before(t.readyAt) {
		o.Ready = external.No
	}
	return o
}

func (c *cloud) find(mark external.Mark) []external.Observation {
	c.calls++
	var out []external.Observation
	for _, t := range c.shown() {
		if (mark.Is(t.mark) || mark.ID == "" && mark.Owner == t.mark.Owner) && t.deleted.IsZero() {
			out = append(out, c.seen(t, ""))
		}
	}
	return out
}

func (c *cloud) begin(i external.Intent) external.Op {
	c.calls++
	c.changes++
	if c.busy > 0 {
		c.busy--
		return external.Op{Err: &external.OpError{Class: external.Rejected, Code: "Throttled"}}
	}
	if i.Verb == c.deaf {
		return external.Op{Done: true, Ref: i.Ref}
	}
	switch i.Verb {
	case external.Create:
		return c.create(i)
	case external.Update:
		for _, t := range c.alive() {
			if t.ref == i.Ref {
				t.was, t.changed = t.request, c.now()
				t.request = string(i.Request)
				return external.Op{Done: true}
			}
		}
	case external.Delete:
		return c.destroy(i)
	}
	return external.Op{Err: &external.OpError{Class: external.Rejected, Code: "NotFound"}}
}

func (c *cloud) create(i external.Intent) external.Op {
	if failure, fails := c.failing(i); fails {
		return failure
	}
	if c.caps.TokenTTL > 0 {
		if t, known := c.tokens[i.Token]; known && c.now().Sub(t.created) < c.caps.TokenTTL {
			return c.op(t.ref)
		}
	}
	ref := external.Ref(i.Key.Name)
	if c.caps.Naming == external.CallerAssigned {
		for _, t := range c.alive() {
			if t.ref == ref {
				return external.Op{Err: &external.OpError{Class: external.Rejected, Code: "AlreadyExists"}}
			}
		}
	} else {
		ref = external.Ref(fmt.Sprintf("id-%d", len(c.things)+1))
	}
	mark := i.Mark
	t := &thing{ref: ref, mark: &mark, created: c.now(), request: string(i.Request), readyAt: c.now().Add(c.async)}
	c.things = append(c.things, t)
	c.tokens[i.Token] = t
	c.creations++
	return c.op(ref)
}

// failing takes a creation on that fails: at once, or, where the API is asynchronous,
// as its operation tells. By its token it is known again, as long as it is invalid.
func (c *cloud) failing(i external.Intent) (op external.Op, fails bool) {
	if c.invalid == "" && c.fails == 0 || c.invalid != "" && string(i.Request) != c.invalid {
		return external.Op{}, false
	}
	c.fails = max(0, c.fails-1)
	ref := external.Ref(i.Key.Name)
	if c.caps.Naming == external.ProviderAssigned {
		ref = external.Ref(fmt.Sprintf("id-%d", len(c.things)+1))
	}
	if mark := i.Mark; c.leaves && len(c.alive()) == 0 {
		t := &thing{ref: ref, mark: &mark, created: c.now(), request: "half", changed: c.now()}
		c.things, c.tokens[i.Token] = append(c.things, t), t
		c.creations++
	} else if t, known := c.tokens[i.Token]; known && c.caps.TokenTTL > 0 {
		ref = t.ref
	}
	if c.async == 0 {
		return external.Op{Done: true, Err: &external.OpError{Class: external.Failed, Code: "Invalid"}}, true
	}
	op = external.Op{Resume: fmt.Sprintf("failing/%d", c.now().Add(c.async).UnixNano()), RetryAfter: time.Second}
	if c.early {
		op.Ref = ref
	}
	return op, true
}

// op is an operation on a thing: resumable where the API is asynchronous.
func (c *cloud) op(ref external.Ref) external.Op {
	if c.async == 0 {
		return external.Op{Done: true, Ref: ref}
	}
	return external.Op{Resume: "op/" + string(ref), Ref: ref, RetryAfter: time.Second}
}

func (c *cloud) poll(resume string) external.Op {
	c.calls++
	if c.busy > 0 {
		c.busy--
		return external.Op{Err: &external.OpError{Class: external.Rejected, Code: "Throttled"}}
	}
	if at, fails := strings.CutPrefix(resume, "failing/"); fails {
		if until, _ := strconv.ParseInt(at, 10, 64); c.now().UnixNano() < until {
			return external.Op{Resume: resume, RetryAfter: time.Second}
		}
		return external.Op{Done: true, Err: &external.OpError{Class: external.Failed, Code: "Invalid"}}
	}
	ref := external.Ref(resume[len("op/"):])
	for _, t := range c.things {
		if t.ref != ref {
			continue
		}
		if c.now().Before(t.readyAt) || (!t.deleted.IsZero() && c.now().Before(t.goneAt)) {
			return external.Op{Resume: resume, Ref: ref, RetryAfter: time.Second}
		}
	}
	return external.Op{Done: true, Ref: ref}
}

func (c *cloud) destroy(i external.Intent) external.Op {
	for _, t := range c.alive() {
		if t.ref != i.Ref {
			continue
		}
		if t.mark != nil && c.caps.Marked && t.mark.ID != i.Mark.ID {
			c.harm = append(c.harm, "deleted what carries another mark")
		}
		if t.deleted.IsZero() {
			t.deleted, t.goneAt = c.now(), c.now().Add(c.async)
		}
		return c.op(t.ref)
	}
	return external.Op{Err: &external.OpError{Class: external.Rejected, Code: "NotFound"}}
}
