package cloud

import (
	"slices"
	"time"
)

// Fault is trouble for calls to come. Refuse stands alone; the others go together: an
// answer may be lost of a call whose operation will take an hour and break.
type Fault struct {
	// Verb and Type say which calls; "" is any. GetOperation is of its resource's type.
	// What befalls operations passes over calls that only read.
	Verb Verb `json:"verb,omitempty"`
	Type Type `json:"type,omitempty"`
	// Skip lets so many calls pass first; then Times are hit, 0 meaning 1.
	Skip  int `json:"skip,omitempty"`
	Times int `json:"times,omitempty"`

	// Refuse answers Throttled or Unavailable, and nothing happens.
	Refuse Code `json:"refuse,omitempty"`
	// RetryAfter is what a refusal says.
	RetryAfter time.Duration `json:"retryAfter,omitempty"`
	// Lose answers Timeout or Unavailable, whatever happens.
	Lose Code `json:"lose,omitempty"`
	// Late answers Timeout, and the call arrives so much later: it is judged and has its
	// effect then.
	Late time.Duration `json:"late,omitempty"`
	// Slow makes the operation take so much longer.
	Slow time.Duration `json:"slow,omitempty"`
	// Break fails the operation after half its time: what is created is there, FAILED
	// and without outputs; what is updated has its new tags, its old properties, and is
	// FAILED; what is deleted is there and FAILED.
	Break bool `json:"break,omitempty"`
}

// Inject adds faults to the script. A call is hit by the first fault that is for it and
// skips it not; those before have counted it, those after haven't. A fault is used up
// by the call that it hits, even if that call is then refused for another reason.
//
// Errors: InvalidParameter, and then none of them is added.
func (c *Cloud) Inject(faults ...Fault) error {
	return c.steer(func(w *world, _ time.Time) error {
		for _, f := range faults {
			if err := f.check(); err != nil {
				return err
			}
		}
		w.Faults = slices.Concat(w.Faults, faults)
		w.moved = true
		return nil
	})
}

// Faults lists what of the script is left, with the counts that are left.
func (c *Cloud) Faults() []Fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Fault(nil), c.world.Faults...)
}

// ClearFaults ends the script. What is under way takes its course: calls that are late
// arrive, operations that are to break do.
func (c *Cloud) ClearFaults() error {
	return c.steer(func(w *world, _ time.Time) error {
		w.Faults, w.moved = nil, true
		return nil
	})
}

func (f Fault) check() error {
	switch {
	case f.Verb != "" && !f.Verb.known():
		return invalid("verb", "no %q", f.Verb)
	case f.Type != "" && !f.Type.known():
		return invalid("type", "no %q", f.Type)
	case f.Skip < 0 || f.Times < 0:
		return invalid("times", "%d and %d: none may be negative", f.Skip, f.Times)
	case f.Refuse != "" && f.Refuse != Throttled && f.Refuse != Unavailable:
		return invalid("refuse", "%q is neither Throttled nor Unavailable", f.Refuse)
	case f.Refuse != "" && (f.Lose != "" || f.touches()):
		return invalid("refuse", "what is refused can't be lost, late, slow or broken as well")
	case f.Lose != "" && f.Lose != Timeout && f.Lose != Unavailable:
		return invalid("lose", "%q is neither Timeout nor Unavailable", f.Lose)
	case f.Refuse == "" && f.Lose == "" && !f.touches():
		return invalid("fault", "there is no trouble in it")
	case f.Verb != "" && !f.Verb.changes() && f.touches():
		return invalid("verb", "%s can't be late, slow or broken", f.Verb)
	}
	return checkDurations(f.RetryAfter, f.Late, f.Slow)
}

// touches says that the fault befalls operations, not only answers.
func (f Fault) touches() bool { return f.Late > 0 || f.Slow > 0 || f.Break }

func (f Fault) hits(v Verb, t Type) bool {
	return (f.Verb == "" || f.Verb == v) && (f.Type == "" || f.Type == t) && (v.changes() || !f.touches())
}

func (f Fault) refusal() error {
	e := refuse(f.Refuse, "not now")
	e.RetryAfter = f.RetryAfter
	return e
}

// draw says what befalls a call, by the script or else by chance.
func (w *world) draw(v Verb, t Type) Fault {
	for i, f := range w.Faults {
		if !f.hits(v, t) {
			continue
		}
		w.Faults, w.moved = slices.Clone(w.Faults), true // others may still hold the old ones
		if f.Skip > 0 {
			w.Faults[i].Skip--
			continue
		}
		if w.Faults[i].Times--; w.Faults[i].Times <= 0 {
			w.Faults = slices.Delete(w.Faults, i, i+1)
		}
		return f
	}
	return w.chance(v)
}
