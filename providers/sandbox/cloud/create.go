package cloud

import (
	"fmt"
	"time"
)

// CreateRequest asks for a new resource. Its type is that of the properties.
type CreateRequest struct {
	// Scope is where, and whose, it shall be.
	Scope string
	// Name is needed where callers assign names: 1 to 63 small letters, digits and
	// dashes, with a letter or digit at both ends. Elsewhere it is any text of at most
	// 256 bytes.
	Name       string
	Tags       map[string]string
	Properties Properties
	// Token makes the call safe to repeat, where tokens are honoured; at most 64 bytes.
	// Tokens of different scopes or types have nothing to do with each other.
	Token string
}

// Create begins to make a resource and answers with the operation that does; the
// operation names the resource from the start.
//
// Errors: InvalidParameter; IdempotencyMismatch; AlreadyExists, if the name is taken or
// not free again yet; InvalidState, if its holder is being deleted, or if what the
// properties refer to is not ACTIVE or UPDATING; NotFound, if there is no such thing;
// QuotaExceeded; and what faults answer.
func (c *Cloud) Create(r CreateRequest) (Operation, error) {
	properties, err := packed(r.Properties)
	if err == nil && properties.IsZero() {
		err = invalid("properties", "are missing")
	}
	q := request{
		Verb: VerbCreate, Key: Key{Scope: r.Scope}, Name: r.Name, Token: r.Token,
		Tags: copied(r.Tags), Retags: len(r.Tags) > 0, Properties: properties,
	}
	if err == nil {
		q.Key.Type = properties.Type()
	}
	return c.change(q, err)
}

func (w *world) create(q request, f Fault, now time.Time) (job, error) {
	if err := w.checkCreate(q); err != nil {
		return job{}, err
	}
	k := q.Key
	behaviour, serial := w.behaviour(k.Type), w.Serial+1
	if k.ID = q.Name; !behaviour.callerNames() {
		k, serial = w.assign(k, serial, now)
	} else if err := w.vacant(k, now); err != nil {
		return job{}, err
	}
	if quota := behaviour.Quota; quota > 0 && w.count(k.Type, k.Scope) >= quota {
		return job{}, refuse(QuotaExceeded, "%s may hold %d of type %s", k.Scope, quota, k.Type)
	}
	if err := w.fits(k, q.Properties, box{}); err != nil {
		return job{}, err
	}
	w.Serial = serial
	r := row{
		Key: k, Name: q.Name, Serial: w.Serial, Tags: q.Tags, Properties: q.Properties,
		Created: now, Visible: now.Add(behaviour.CreateLag),
	}
	if r.Visible.After(now) {
		w.agenda.add(event{at: r.Visible, what: reveal, number: r.Serial, id: r.id()})
	}
	return w.start(r, VerbCreate, f, now), nil
}

// assign gives the next ID that nobody has: somebody may have chosen it as a name
// while callers assigned names.
func (w *world) assign(k Key, serial int64, now time.Time) (Key, int64) {
	for ; ; serial++ {
		k.ID = fmt.Sprintf("%s-%08d", k.Type.prefix(), serial)
		if w.vacant(k, now) == nil {
			return k, serial
		}
	}
}

// vacant refuses a key that somebody has, or had until lately.
func (w *world) vacant(k Key, now time.Time) error {
	if r, ok := w.resources.rows[k.id()]; ok && r.State == Deleting {
		return refuse(InvalidState, "%s is being deleted", k)
	} else if ok {
		e := refuse(AlreadyExists, "there is a %s already", k)
		e.Field = "name"
		return e
	}
	if n, ok := w.names.rows[k.id()]; ok && now.Before(n.Until) {
		e := refuse(AlreadyExists, "the name of %s is not free again yet", k)
		e.Field, e.RetryAfter = "name", n.Until.Sub(now)
		return e
	}
	return nil
}

// count is how many resources of a type a scope holds, whatever their state.
func (w *world) count(t Type, scope string) int {
	n := 0
	for _, r := range w.resources.rows {
		if r.Type == t && r.Scope == scope {
			n++
		}
	}
	return n
}
