package operation_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// cloud is a minimal external API. By its capabilities it assigns names or not, recognizes tokens or
// not, shows marks or not, and shows changes at once or late.
type cloud struct {
	caps   external.Caps
	now    func() time.Time
	things []*thing
	// incarnations: the API shows which resource of a name it is.
	incarnations bool
	tokens       map[string]*thing
	// ignored is the verb of the calls that succeed without an effect.
	ignored external.Verb
	// hidden: Observe reports resources as absent that a search finds.
	hidden bool
	// invalid is a request for a creation that is accepted and fails. fails is how many other
	// creations fail. leaves: a failed creation has created a resource. early: its identity is
	// returned before the failure.
	invalid       string
	fails         int
	leaves, early bool
	// busy is how many of the next calls are throttled.
	busy int
	// async is how long operations take; 0 for at once.
	async time.Duration
	// calls counts all calls, changes those of Begin, and creations the creations that had an
	// effect.
	calls, changes, creations int
	// violations lists violated invariants.
	violations []string
}

type thing struct {
	ref     external.Ref
	mark    *external.Mark
	created time.Time
	request string
	was     string // the request before the last change
	changed time.Time
	readyAt time.Time
	deleted time.Time // zero unless it is being deleted
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

// shown are the resources that the API shows, which may be those of a moment before.
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
		if t.ref == ref && !c.hidden {
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
	if c.incarnations {
		o.Incarnation = strconv.Itoa(slices.Index(c.things, t))
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
		if (mark.Is(t.mark) || mark.ID == "" && t.mark != nil && mark.Owner == t.mark.Owner) && t.deleted.IsZero() {
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
	if i.Verb == c.ignored {
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

// failing accepts a creation that fails: at once or, if the API is asynchronous, when its operation
// is polled. A repetition with the same token fails as well, as long as the request is invalid.
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

// op is an operation on a resource, which has to be polled if the API is asynchronous.
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
			c.violations = append(c.violations, "deleted what carries another mark")
		}
		if t.deleted.IsZero() {
			t.deleted, t.goneAt = c.now(), c.now().Add(c.async)
		}
		return c.op(t.ref)
	}
	return external.Op{Err: &external.OpError{Class: external.Rejected, Code: "NotFound"}}
}
