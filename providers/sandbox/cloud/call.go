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
	// Key is the resource. The ID of a create is used if callers assign names.
	Key Key
	// Tags are the tags of a create.
	Tags map[string]string
	// Properties are all properties after a create or an update.
	Properties Properties
	// Token makes the call idempotent, if tokens are recognized. It is unique in a scope and
	// type.
	Token string

	// arrived is when a delayed call arrived, whose caller has timed out; zero for now.
	arrived time.Time
	// fails: the operation fails.
	fails bool
}

func (q Request) clone() Request {
	q.Tags, q.Properties = maps.Clone(q.Tags), q.Properties.clone()
	return q
}

func (q Request) entry() Entry {
	return Entry{Verb: q.Verb, Key: q.Key, Tags: q.Tags, Late: !q.arrived.IsZero()}
}

// fingerprint is equal for repetitions of a request.
func (q Request) fingerprint() string {
	raw, err := json.Marshal(q)
	if err != nil {
		panic("sandbox cloud: " + err.Error()) // the fields cannot fail
	}
	return string(raw)
}

// job is a stored operation.
type job struct {
	Operation
	// Started and Due are when it begins and ends.
	Started time.Time `json:"started"`
	Due     time.Time `json:"due"`
	// Fails: it ends after half of its time.
	Fails bool `json:"fails,omitempty"`
	// Before is the state of the resource before it, and Next are the properties after it.
	Before State      `json:"before,omitempty"`
	Next   Properties `json:"next,omitzero"`
	// Token identifies it, in requests with this Fingerprint.
	Token       string `json:"token,omitempty"`
	Fingerprint string `json:"print,omitempty"`
}

func (j *job) view(now time.Time) Operation {
	out := j.Operation
	if !out.Done() {
		out.RetryAfter = j.Due.Sub(now)
	}
	return out
}

// Call begins to create, update or delete a resource, and returns the operation, which has the
// resource's key from the start.
//
// An update requires that the resource is ACTIVE or FAILED. Its properties are set when it
// succeeds. An update repairs a failed create. A deletion requires that no other resource refers
// to it; another deletion meanwhile returns the same operation.
func (c *Cloud) Call(q Request) (out Operation, err error) {
	q = q.clone()
	err = c.stepAt(cmp.Or(q.arrived, c.now()), func(now time.Time) error {
		e, before := q.entry(), c.contents.Operation
		j, err := c.do(q, now)
		if err == nil {
			c.finishDue(now) // an operation of no duration is done now
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

// do executes a request, once for each token.
func (c *Cloud) do(q Request, now time.Time) (*job, error) {
	expired := now.Add(-c.behaviours[q.Key.Type].TokenTTL)
	for _, j := range c.contents.Operations {
		switch of := j.Resource; {
		case q.Token == "" || j.Token != q.Token || of.Type != q.Key.Type || of.Scope != q.Key.Scope || !j.Started.After(expired):
		case j.Fingerprint != q.fingerprint():
			return nil, errorf(IdempotencyMismatch, "token %q was used before with another request", q.Token)
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
		return nil, errorf(InvalidParameter, "a %s has no tags", k.Type)
	}
	if b.Naming == ProviderAssigned {
		k.ID = fmt.Sprintf("%s-%08d", k.Type, serial)
	} else if !names.MatchString(k.ID) {
		return nil, errorf(InvalidParameter, "the name %q must have 1 to 63 lower-case letters, digits and dashes", k.ID)
	} else if err := c.checkNameFree(k, now); err != nil {
		return nil, err
	}
	if err := c.checkReferences(k, q.Properties, Properties{}); err != nil {
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

// checkNameFree returns an error if a resource has the key, or had it until recently.
func (c *Cloud) checkNameFree(k Key, now time.Time) error {
	for _, r := range c.contents.Resources {
		switch {
		case r.Key != k:
		case r.Gone.IsZero() && r.State == Deleting:
			return errorf(InvalidState, "%s is being deleted", k)
		case r.Gone.IsZero():
			return errorf(AlreadyExists, "%s already exists", k)
		case now.Before(r.Free):
			e := errorf(AlreadyExists, "the name of %s cannot be used again yet", k)
			e.RetryAfter = r.Free.Sub(now)
			return e
		}
	}
	return nil
}

// checkReferences returns an error if properties refer to resources that do not exist, or are
// not usable. References of the old properties are not checked again.
func (c *Cloud) checkReferences(k Key, p, old Properties) error {
	for _, referenced := range p.references(k.Scope) {
		if slices.Contains(old.references(k.Scope), referenced) {
			continue
		}
		r, err := c.find(referenced)
		if err != nil {
			return err
		}
		if r.State != Active && r.State != Updating {
			return errorf(InvalidState, "%s is %s", referenced, r.State)
		}
	}
	return nil
}

func (c *Cloud) update(q Request, now time.Time) (*job, error) {
	r, err := c.findIdle(q.Key)
	if err != nil {
		return nil, err
	}
	if err := q.Properties.check(r.Type); err != nil {
		return nil, err
	}
	if err := c.checkReferences(r.Key, q.Properties, r.Properties); err != nil {
		return nil, err
	}
	return c.begin(r, Updating, q, now), nil
}

func (c *Cloud) remove(q Request, now time.Time) (*job, error) {
	if j := c.running(q.Key); j != nil && j.Verb == VerbDelete {
		return j, nil
	}
	r, err := c.findIdle(q.Key)
	if err != nil {
		return nil, err
	}
	if err := c.checkUnused(r.Key); err != nil {
		return nil, err
	}
	return c.begin(r, Deleting, q, now), nil
}

// findIdle returns a resource without a running operation.
func (c *Cloud) findIdle(k Key) (*record, error) {
	r, err := c.find(k)
	if err == nil && r.State.isBusy() {
		err = errorf(InvalidState, "%s is %s", k, r.State)
	}
	return r, err
}

// running returns the running operation of a resource; nil if there is none.
func (c *Cloud) running(k Key) *job {
	for _, j := range c.contents.Operations {
		if j.Resource == k && !j.Done() {
			return j
		}
	}
	return nil
}

// begin begins an operation, and decides how long it takes and how it ends.
func (c *Cloud) begin(r *record, s State, q Request, now time.Time) *job {
	duration := c.behaviours[r.Type].duration(q.Verb)
	if q.fails {
		duration /= 2
	}
	c.contents.Operation++
	j := &job{
		Operation: Operation{ID: fmt.Sprintf("op-%08d", c.contents.Operation), Verb: q.Verb, Resource: r.Key, Status: Running},
		Started:   now, Due: now.Add(duration), Fails: q.fails, Before: r.State, Next: q.Properties, Token: q.Token, Fingerprint: q.fingerprint(),
	}
	r.State, r.Message = s, ""
	c.contents.Operations = append(c.contents.Operations, j)
	c.changed = true
	return j
}

// finish ends an operation that is due. One that fails leaves a FAILED resource.
func (c *Cloud) finish(j *job) {
	c.changed = true
	r, err := c.find(j.Resource)
	switch {
	case err != nil:
		panic("sandbox cloud: an operation runs on a resource that does not exist") // Admin ends it with the resource
	case j.Fails:
		j.Status, j.Error = FailedOperation, errorf(InvalidState, "%s of %s has failed", j.Verb, j.Resource)
		r.State, r.Message = Failed, j.Error.Message
		return
	}
	j.Status = Succeeded
	if j.Verb == VerbDelete {
		if j.Due.Equal(j.Started) {
			r.State = j.Before // the state Deleting was never visible
		}
		c.removeResource(r, j.Due)
		return
	}
	r.State, r.Properties = Active, j.Next.clone()
	switch r.Type {
	case TypeCluster:
		r.Endpoint, r.Certificate = "https://"+r.host(), "certificate of "+r.host()
	case TypeBucket:
		r.URL = "https://" + r.host()
	default: // other types have no outputs
	}
}
