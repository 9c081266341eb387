package cloud

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Fault is trouble for calls to come.
type Fault struct {
	// Verb and Type say which calls; "" is any, and GetOperation is of no type. What befalls
	// operations, Late and Break, passes over calls that only read.
	Verb Verb
	Type Type
	// Times is how many calls are hit, 0 meaning 1.
	Times int

	// Refuse answers Throttled or Unavailable, and nothing happens. RetryAfter is what a
	// refusal says.
	Refuse     Code
	RetryAfter time.Duration
	// Lose answers Timeout or Unavailable, whatever happens.
	Lose Code
	// Late answers Timeout, and the call arrives so much later: it is judged and has its
	// effect then.
	Late time.Duration
	// Break fails the operation after half its time: what is created is there, FAILED;
	// what is updated has its old properties, and is FAILED; what is deleted is there and
	// FAILED.
	Break bool
}

func (f Fault) hits(v Verb, t Type) bool {
	return (f.Verb == "" || f.Verb == v) && (f.Type == "" || f.Type == t) && (v.changes() || f.Late == 0 && !f.Break)
}

func (v Verb) changes() bool { return v == VerbCreate || v == VerbUpdate || v == VerbDelete }

// Faulty is a cloud whose calls go wrong: by a script of faults, or else by chance.
// Its administrator isn't hit.
type Faulty struct {
	*Cloud

	mu     sync.Mutex
	script []Fault
	chance func() Fault
	hits   int
	// late are the calls on their way whose callers have given up.
	late []Request
}

// NewFaulty decorates a cloud with trouble, of which there is none yet.
func NewFaulty(c *Cloud) *Faulty { return &Faulty{Cloud: c} }

// Inject adds faults to the script. A call is hit by the first fault that is for it.
func (f *Faulty) Inject(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = append(f.script, faults...)
}

// Faults lists what is left of the script.
func (f *Faulty) Faults() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.script)
}

// ClearFaults ends the script. What is under way takes its course.
func (f *Faulty) ClearFaults() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = nil
}

// SetChance asks for a fault for each call that the script doesn't hit; the zero Fault is
// none. The calls follow one another.
func (f *Faulty) SetChance(chance func() Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chance = chance
}

// Hits counts the calls that were hit.
func (f *Faulty) Hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// Get is [Cloud.Get], if nothing befalls it.
func (f *Faulty) Get(k Key) (Resource, error) {
	return read(f, Entry{Verb: VerbGet, Key: k}, func() (Resource, error) { return f.Cloud.Get(k) })
}

// List is [Cloud.List], if nothing befalls it.
func (f *Faulty) List(q Query) ([]Resource, error) {
	return read(f, Entry{Verb: VerbList, Key: Key{Type: q.Type, Scope: q.Scope}}, func() ([]Resource, error) { return f.Cloud.List(q) })
}

// GetOperation is [Cloud.GetOperation], if nothing befalls it.
func (f *Faulty) GetOperation(id string) (Operation, error) {
	return read(f, Entry{Verb: VerbGetOperation}, func() (Operation, error) { return f.Cloud.GetOperation(id) })
}

// Admin is that of the cloud, in which late calls have arrived.
func (f *Faulty) Admin() Admin {
	f.deliver()
	return f.Cloud.Admin()
}

// read makes a call that changes nothing: whether it is refused or its answer lost is all
// the same.
func read[T any](f *Faulty, e Entry, call func() (T, error)) (out T, err error) {
	f.deliver()
	fault := f.draw(e.Verb, e.Key.Type)
	if code := cmp.Or(fault.Refuse, fault.Lose); code != "" {
		return out, f.refuse(code, fault.RetryAfter, e)
	}
	return call()
}

// Call is [Cloud.Call], if nothing befalls it.
func (f *Faulty) Call(q Request) (Operation, error) {
	f.deliver()
	fault := f.draw(q.Verb, q.Key.Type)
	q.fails = fault.Break
	switch {
	case fault.Refuse != "":
		return Operation{}, f.refuse(fault.Refuse, fault.RetryAfter, q.entry())
	case fault.Late > 0:
		err := f.refuse(Timeout, 0, q.entry())
		f.mu.Lock()
		defer f.mu.Unlock()
		q = q.clone()
		q.arrived = f.now().Add(fault.Late)
		f.late = append(f.late, q)
		return Operation{}, err
	}
	op, err := f.Cloud.Call(q)
	if fault.Lose != "" {
		return Operation{}, refuse(fault.Lose, "the answer is lost")
	}
	return op, err
}

// refuse answers a call that the cloud hasn't heard of, and notes it.
func (f *Faulty) refuse(code Code, retryAfter time.Duration, e Entry) error {
	e.Code = code
	f.journal.add(e)
	return &Error{Code: code, Message: "not now", RetryAfter: retryAfter}
}

// deliver has the effects of the calls that have arrived by now, if they have any: a
// call is judged by what there was then.
func (f *Faulty) deliver() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	var due []Request
	f.late = slices.DeleteFunc(f.late, func(q Request) bool {
		if q.arrived.After(now) {
			return false
		}
		due = append(due, q)
		return true
	})
	slices.SortStableFunc(due, func(a, b Request) int { return a.arrived.Compare(b.arrived) })
	for _, q := range due {
		_, _ = f.Cloud.Call(q) // nobody waits for the answer
	}
}

// draw says what befalls a call, by the script or else by chance.
func (f *Faulty) draw(v Verb, t Type) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.script, func(fault Fault) bool { return fault.hits(v, t) }); i >= 0 {
		fault := f.script[i]
		if f.script[i].Times--; f.script[i].Times <= 0 {
			f.script = slices.Delete(f.script, i, i+1)
		}
		f.hits++
		return fault
	}
	var fault Fault
	if f.chance != nil {
		fault = f.chance()
	}
	if !fault.hits(v, t) || fault == (Fault{}) {
		return Fault{}
	}
	f.hits++
	return fault
}
