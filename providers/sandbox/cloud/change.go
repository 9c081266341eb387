package cloud

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"
)

// Request is a call that changes something.
type Request struct {
	// Verb is VerbCreate, VerbUpdate or VerbDelete.
	Verb Verb
	// Key is what it is about. The ID of a create counts where callers assign names.
	Key Key
	// Tags are those of a create.
	Tags map[string]string
	// Properties are what a create or an update makes all of them.
	Properties Properties
	// Token makes the call safe to repeat, where tokens are honoured. Tokens of
	// different scopes or types have nothing to do with each other.
	Token string

	// arrived is when the call of somebody arrived who had given up; zero is now.
	arrived time.Time
	// fails says that the operation will.
	fails bool
}

func (q Request) clone() Request {
	q.Tags, q.Properties = maps.Clone(q.Tags), q.Properties.clone()
	return q
}

func (q Request) entry() Entry {
	return Entry{Verb: q.Verb, Key: q.Key, Tags: q.Tags, Late: !q.arrived.IsZero()}
}

// print is what makes one request another's repetition.
func (q Request) print() string {
	raw, err := json.Marshal(q)
	if err != nil {
		panic("sandbox cloud: " + err.Error()) // texts, numbers and lists of them
	}
	return string(raw)
}

// job is an operation as the cloud keeps it.
type job struct {
	Operation
	// Started and Due are when it begins and ends.
	Started time.Time `json:"started"`
	Due     time.Time `json:"due"`
	// Fails means that it ends half way.
	Fails bool `json:"fails,omitempty"`
	// Before is the state of the resource when it began, and Next are the properties
	// that it brings.
	Before State      `json:"before,omitempty"`
	Next   Properties `json:"next,omitzero"`
	// Token stands for it, in a request that has this Print.
	Token string `json:"token,omitempty"`
	Print string `json:"print,omitempty"`
}

func (j *job) view(now time.Time) Operation {
	out := j.Operation
	if !out.Done() {
		out.RetryAfter = j.Due.Sub(now)
	}
	return out
}

// Call begins to create, update or delete a resource, and answers with the operation
// that does; it names the resource from the start.
//
// An update is of a resource that is ACTIVE or has FAILED. Its properties come into
// force when it succeeds. A failed create is repaired by an update. A deletion is of one
// that no other refers to; while it goes on, another answers with the same operation.
func (c *Cloud) Call(q Request) (out Operation, err error) {
	q = q.clone()
	err = c.stepAt(cmp.Or(q.arrived, c.now()), func(now time.Time) error {
		e, before := q.entry(), c.contents.Operation
		j, err := c.do(q, now)
		if err == nil {
			c.settle(now) // what takes no time is done when it is answered
			out, e.Key, e.Effect = j.view(now), j.Resource, c.contents.Operation > before
		}
		e.Code = codeOf(err)
		c.journal.add(e)
		return err
	})
	if err != nil {
		return Operation{}, err
	}
	return out, nil
}

// do has a request's effect, once for each token.
func (c *Cloud) do(q Request, now time.Time) (*job, error) {
	expired := now.Add(-c.behaviours[q.Key.Type].TokenTTL)
	for _, j := range c.contents.Operations {
		switch of := j.Resource; {
		case q.Token == "" || j.Token != q.Token || of.Type != q.Key.Type || of.Scope != q.Key.Scope || !j.Started.After(expired):
		case j.Print != q.print():
			return nil, refuse(IdempotencyMismatch, "token %q came before, with another request", q.Token)
		default:
			return j, nil
		}
	}
	switch q.Verb {
	case VerbCreate:
		return c.create(q, now)
	case VerbUpdate:
		return c.update(q, now)
	default:
		return c.remove(q, now)
	}
}

var names = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (c *Cloud) create(q Request, now time.Time) (*job, error) {
	k, b, serial := q.Key, c.behaviours[q.Key.Type], c.contents.Serial+1
	if err := q.Properties.check(k.Type); err != nil {
		return nil, err
	}
	if b.Tags == TagsNone && len(q.Tags) > 0 {
		return nil, refuse(InvalidParameter, "a %s has no tags", k.Type)
	}
	if b.Naming == ProviderAssigned {
		k.ID = fmt.Sprintf("%s-%08d", k.Type, serial)
	} else if !names.MatchString(k.ID) {
		return nil, refuse(InvalidParameter, "%q is not 1 to 63 small letters, digits and dashes", k.ID)
	} else if err := c.vacant(k, now); err != nil {
		return nil, err
	}
	if err := c.fits(k, q.Properties, Properties{}); err != nil {
		return nil, err
	}
	c.contents.Serial = serial
	r := &record{
		Resource: Resource{Key: k, Serial: serial, Tags: q.Tags, Properties: q.Properties, Created: now},
		Visible:  now.Add(b.CreateLag),
	}
	c.contents.Resources = append(c.contents.Resources, r)
	return c.begin(r, Creating, q, now), nil
}

// vacant refuses a key that a resource has, or had until lately.
func (c *Cloud) vacant(k Key, now time.Time) error {
	for _, r := range c.contents.Resources {
		switch {
		case r.Key != k:
		case r.Gone.IsZero() && r.State == Deleting:
			return refuse(InvalidState, "%s is being deleted", k)
		case r.Gone.IsZero():
			return refuse(AlreadyExists, "there is a %s already", k)
		case now.Before(r.Free):
			e := refuse(AlreadyExists, "the name of %s is not free again yet", k)
			e.RetryAfter = r.Free.Sub(now)
			return e
		}
	}
	return nil
}

// fits refuses properties that refer to what isn't there. What the resource refers to
// already, by its old properties, need not be in order.
func (c *Cloud) fits(k Key, p, old Properties) error {
	for _, needed := range p.needs(k.Scope) {
		if slices.Contains(old.needs(k.Scope), needed) {
			continue
		}
		r, err := c.find(needed)
		if err != nil {
			return err
		}
		if r.State != Active && r.State != Updating {
			return refuse(InvalidState, "%s is %s", needed, r.State)
		}
	}
	return nil
}

func (c *Cloud) update(q Request, now time.Time) (*job, error) {
	r, err := c.idle(q.Key)
	if err != nil {
		return nil, err
	}
	if err := q.Properties.check(r.Type); err != nil {
		return nil, err
	}
	if err := c.fits(r.Key, q.Properties, r.Properties); err != nil {
		return nil, err
	}
	return c.begin(r, Updating, q, now), nil
}

func (c *Cloud) remove(q Request, now time.Time) (*job, error) {
	if j := c.running(q.Key); j != nil && j.Verb == VerbDelete {
		return j, nil
	}
	r, err := c.idle(q.Key)
	if err != nil {
		return nil, err
	}
	if err := c.unused(r.Key); err != nil {
		return nil, err
	}
	return c.begin(r, Deleting, q, now), nil
}

// idle finds a resource that no operation works on.
func (c *Cloud) idle(k Key) (*record, error) {
	r, err := c.find(k)
	if err == nil && r.State.busy() {
		err = refuse(InvalidState, "%s is %s", k, r.State)
	}
	return r, err
}

// running is the operation that works on a resource; nil if there is none.
func (c *Cloud) running(k Key) *job {
	for _, j := range c.contents.Operations {
		if j.Resource == k && !j.Done() {
			return j
		}
	}
	return nil
}

// begin begins an operation. How long it takes and how it ends is decided here.
func (c *Cloud) begin(r *record, s State, q Request, now time.Time) *job {
	takes := c.behaviours[r.Type].takes(q.Verb)
	if q.fails {
		takes /= 2
	}
	c.contents.Operation++
	j := &job{
		Operation: Operation{ID: fmt.Sprintf("op-%08d", c.contents.Operation), Verb: q.Verb, Resource: r.Key, Status: Running},
		Started:   now, Due: now.Add(takes), Fails: q.fails, Before: r.State, Next: q.Properties, Token: q.Token, Print: q.print(),
	}
	r.State, r.Message = s, ""
	c.contents.Operations = append(c.contents.Operations, j)
	c.changed = true
	return j
}

// finish ends an operation in its time. One that fails leaves the resource there, but
// not as it should be.
func (c *Cloud) finish(j *job) {
	c.changed = true
	r, err := c.find(j.Resource)
	switch {
	case err != nil:
		panic("sandbox cloud: an operation runs on what isn't there") // Admin ends it with the resource
	case j.Fails:
		j.Status, j.Error = FailedOperation, refuse(InvalidState, "%s of %s failed half way", j.Verb, j.Resource)
		r.State, r.Message = Failed, j.Error.Message
		return
	}
	j.Status = Succeeded
	if j.Verb == VerbDelete {
		if j.Due.Equal(j.Started) {
			r.State = j.Before // nobody could see it being deleted
		}
		c.vanish(r, j.Due)
		return
	}
	r.State, r.Properties = Active, j.Next.clone()
	switch r.Type {
	case TypeCluster:
		r.Endpoint, r.Certificate = "https://"+r.host(), "certificate of "+r.host()
	case TypeBucket:
		r.URL = "https://" + r.host()
	default: // the ID says it all
	}
}
