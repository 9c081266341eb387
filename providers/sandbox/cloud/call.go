package cloud

import (
	"maps"
	"time"
)

// request is a call that changes something, as it is frozen: to be done now, or in a
// letter that arrives later.
type request struct {
	Verb Verb `json:"verb"`
	// Key has no ID in a create.
	Key     Key    `json:"key"`
	Name    string `json:"name,omitempty"`
	IfMatch string `json:"ifMatch,omitempty"`
	Token   string `json:"token,omitempty"`
	// Tags are to be set if Retags says so.
	Tags       map[string]string `json:"tags,omitempty"`
	Retags     bool              `json:"retags,omitempty"`
	Properties box               `json:"properties,omitzero"`
}

// change does what all calls have in common that change something: time goes on, a
// fault may strike, the effect is written down before it is told.
func (c *Cloud) change(q request, packing error) (Operation, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.enter()
	if err != nil {
		return Operation{}, err
	}
	e := q.entry(now)
	out, err := c.world.answer(q, packing, now, &e)
	if failed := c.leave(); failed != nil {
		out, err = Operation{}, failed
	}
	e.Code = CodeOf(err)
	c.journal.add(e)
	return out, err
}

// answer decides what the caller is told, which need not be what happens.
func (w *world) answer(q request, packing error, now time.Time, e *Entry) (Operation, error) {
	f := w.draw(q.Verb, q.Key.Type)
	switch {
	case f.Refuse != "":
		return Operation{}, f.refusal()
	case packing != nil:
		return Operation{}, packing
	case f.Late > 0:
		w.post(q, f, now)
		return Operation{}, refuse(Timeout, "no answer came in time")
	}
	j, err := w.do(q, f, now, e)
	w.settle(now) // what takes no time is done when it is answered
	if f.Lose != "" {
		return Operation{}, refuse(f.Lose, "the answer is lost")
	}
	if err != nil {
		return Operation{}, err
	}
	return w.operations.rows[j.id()].view(), nil
}

// do has the request's effect, once for each token.
func (w *world) do(q request, f Fault, now time.Time, e *Entry) (job, error) {
	j, known, err := w.replay(q, now)
	if known || err != nil {
		e.Replayed = known
		if known {
			e.hits(j)
		}
		return j, err
	}
	before := w.Operation
	if r, err := w.find(q.Key); err == nil { // a create's key has no ID
		e.Serial, e.Tags = r.Serial, maps.Clone(r.Tags)
	}
	switch q.Verb {
	case VerbCreate:
		j, err = w.create(q, f, now)
	case VerbUpdate:
		j, err = w.update(q, f, now)
	default:
		j, err = w.remove(q, f, now)
	}
	if err != nil {
		return job{}, err
	}
	w.remember(q, j, now)
	e.hits(j)
	e.Effect = w.Operation > before
	return j, nil
}

// read does what all calls have in common that change nothing. They leave their mark
// nevertheless: what time has done is written down before it is told.
func (c *Cloud) read(e Entry, look func(w *world, now time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.enter()
	if err != nil {
		return err
	}
	if j, ok := c.world.operations.rows[e.Operation]; ok {
		e.Key, e.Serial = j.Resource, j.Serial
	}
	switch f := c.world.draw(e.Verb, e.Key.Type); {
	case f.Refuse != "":
		err = f.refusal()
	case f.Lose != "":
		err = refuse(f.Lose, "the answer is lost")
	default:
		err = look(c.world, now)
	}
	if failed := c.leave(); failed != nil {
		err = failed
	}
	e.At, e.Code = now, CodeOf(err)
	c.journal.add(e)
	return err
}

// steer does what those do who stand above the calls; no fault strikes them.
func (c *Cloud) steer(work func(w *world, now time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := c.enter()
	if err != nil {
		return err
	}
	err = work(c.world, now)
	c.world.settle(now)
	if failed := c.leave(); failed != nil {
		return failed
	}
	return err
}

// enter brings the world up to date and says what time it is. Time never runs
// backwards, whatever the clock does.
func (c *Cloud) enter() (time.Time, error) {
	if c.down != nil {
		return time.Time{}, c.unavailable()
	}
	now := c.now().Round(0).UTC()
	if now.Before(c.world.Seen) {
		now = c.world.Seen
	}
	c.world.settle(now)
	return now, nil
}

// leave writes down what has changed. If that fails, nobody knows what is on disk:
// the cloud is down until it is opened again.
func (c *Cloud) leave() error {
	for _, e := range c.world.landed {
		c.journal.add(e)
	}
	c.world.landed = nil
	if !c.world.changed() {
		return nil
	}
	if c.down = c.ledger.write(c.world.take()); c.down != nil {
		return c.unavailable()
	}
	if c.ledger.long() {
		c.world.purge(c.world.Seen)
		c.world.take()
		c.ledger.rewrite(c.world.whole())
	}
	return nil
}

func (c *Cloud) unavailable() error {
	e := refuse(Unavailable, "%v", c.down)
	e.Cause = c.down
	return e
}
