package cloud

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Fault is a fault to inject into later calls.
type Fault struct {
	// Verb and Type select the calls; "" selects any. GetOperation has no type. Late and Break
	// only affect calls that change something.
	Verb Verb
	Type Type
	// Times is how many calls it affects; 0 stands for 1.
	Times int

	// Refuse returns the code, Throttled or Unavailable, and RetryAfter. The call has no effect.
	Refuse     Code
	RetryAfter time.Duration
	// Lose returns the code, Timeout or Unavailable. The call has its effect.
	Lose Code
	// Late returns Timeout, and the call arrives after this time. It is validated and has its
	// effect then.
	Late time.Duration
	// Break fails the operation after half of its time. The resource is FAILED then: one that
	// was created or deleted exists, one that was updated has its old properties.
	Break bool
}

func (f Fault) matches(v Verb, t Type) bool {
	return (f.Verb == "" || f.Verb == v) && (f.Type == "" || f.Type == t) && (v.changes() || f.Late == 0 && !f.Break)
}

func (v Verb) changes() bool { return v == VerbCreate || v == VerbUpdate || v == VerbDelete }

// Faulty is a cloud with injected faults: by a script, or else by a function. Admin is not
// affected.
type Faulty struct {
	*Cloud

	mu     sync.Mutex
	script []Fault
	chance func() Fault
	hits   int
	// late are the calls that have not arrived yet. Their callers have timed out.
	late []Request
}

// NewFaulty decorates a cloud, without faults at first.
func NewFaulty(c *Cloud) *Faulty { return &Faulty{Cloud: c} }

// Inject adds faults to the script. The first one that matches affects a call.
func (f *Faulty) Inject(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = append(f.script, faults...)
}

// Faults returns the remaining script.
func (f *Faulty) Faults() []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.script)
}

// ClearFaults clears the script. Late calls still arrive.
func (f *Faulty) ClearFaults() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.script = nil
}

// SetChance sets a function that returns a fault for each call that the script does not affect;
// the zero Fault for none. Its calls are serialized.
func (f *Faulty) SetChance(chance func() Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.chance = chance
}

// Hits returns how many calls had a fault.
func (f *Faulty) Hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// Get is [Cloud.Get], unless it has a fault.
func (f *Faulty) Get(k Key) (Resource, error) {
	return readFaulty(f, Entry{Verb: VerbGet, Key: k}, func() (Resource, error) { return f.Cloud.Get(k) })
}

// List is [Cloud.List], unless it has a fault.
func (f *Faulty) List(q Query) ([]Resource, error) {
	return readFaulty(f, Entry{Verb: VerbList, Key: Key{Type: q.Type, Scope: q.Scope}}, func() ([]Resource, error) { return f.Cloud.List(q) })
}

// GetOperation is [Cloud.GetOperation], unless it has a fault.
func (f *Faulty) GetOperation(id string) (Operation, error) {
	return readFaulty(f, Entry{Verb: VerbGetOperation}, func() (Operation, error) { return f.Cloud.GetOperation(id) })
}

// Admin is [Cloud.Admin], after late calls that are due have arrived.
func (f *Faulty) Admin() Admin {
	f.deliverLate()
	return f.Cloud.Admin()
}

// readFaulty makes a call that only reads: Refuse and Lose are the same for it.
func readFaulty[T any](f *Faulty, e Entry, call func() (T, error)) (out T, err error) {
	f.deliverLate()
	fault := f.nextFault(e.Verb, e.Key.Type)
	if code := cmp.Or(fault.Refuse, fault.Lose); code != "" {
		return out, f.fail(code, fault.RetryAfter, e)
	}
	return call()
}

// Call is [Cloud.Call], unless it has a fault.
func (f *Faulty) Call(q Request) (Operation, error) {
	f.deliverLate()
	fault := f.nextFault(q.Verb, q.Key.Type)
	q.fails = fault.Break
	switch {
	case fault.Refuse != "":
		return Operation{}, f.fail(fault.Refuse, fault.RetryAfter, q.entry())
	case fault.Late > 0:
		err := f.fail(Timeout, 0, q.entry())
		f.mu.Lock()
		defer f.mu.Unlock()
		q = q.clone()
		q.arrived = f.now().Add(fault.Late)
		f.late = append(f.late, q)
		return Operation{}, err
	}
	op, err := f.Cloud.Call(q)
	if fault.Lose != "" {
		return Operation{}, errorf(fault.Lose, "injected fault: the answer is lost")
	}
	return op, err
}

// fail returns an error for a call that does not reach the cloud, and adds it to the journal.
func (f *Faulty) fail(code Code, retryAfter time.Duration, e Entry) error {
	e.Code = code
	f.journal.add(e)
	return &Error{Code: code, Message: "injected fault", RetryAfter: retryAfter}
}

// deliverLate makes the late calls that have arrived by now, each with the state at the time of
// its arrival.
func (f *Faulty) deliverLate() {
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
		_, _ = f.Cloud.Call(q) // the caller has timed out
	}
}

// nextFault returns the fault of a call: by the script, or else by the function.
func (f *Faulty) nextFault(v Verb, t Type) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.IndexFunc(f.script, func(fault Fault) bool { return fault.matches(v, t) }); i >= 0 {
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
	if !fault.matches(v, t) || fault == (Fault{}) {
		return Fault{}
	}
	f.hits++
	return fault
}
