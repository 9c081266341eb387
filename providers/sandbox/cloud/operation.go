package cloud

import (
	"fmt"
	"time"
)

// Verb is what a call does.
type Verb string

// The verbs.
const (
	VerbCreate       Verb = "Create"
	VerbGet          Verb = "Get"
	VerbList         Verb = "List"
	VerbUpdate       Verb = "Update"
	VerbDelete       Verb = "Delete"
	VerbGetOperation Verb = "GetOperation"
)

func (v Verb) changes() bool { return v == VerbCreate || v == VerbUpdate || v == VerbDelete }

func (v Verb) known() bool {
	return v.changes() || v == VerbGet || v == VerbList || v == VerbGetOperation
}

// Status is how far an operation is.
type Status string

// The statuses. Succeeded and FailedOperation are final.
const (
	Running         Status = "Running"
	Succeeded       Status = "Succeeded"
	FailedOperation Status = "Failed"
)

// Operation is work that the cloud has accepted.
type Operation struct {
	// ID is the handle to ask with; the cloud forgets it some time after the end.
	ID   string `json:"id"`
	Verb Verb   `json:"verb"`
	// Resource is what is worked on; a create's is named from the start.
	Resource Key `json:"resource"`
	// Serial is that of the resource.
	Serial int64  `json:"serial"`
	Status Status `json:"status"`
	// Error says why it failed; nil otherwise.
	Error   *Error    `json:"error,omitempty"`
	Started time.Time `json:"started"`
	// Ended is zero while it runs.
	Ended time.Time `json:"ended,omitzero"`
}

// Done says that the operation has come to its end, one or the other.
func (o Operation) Done() bool { return o.Status == Succeeded || o.Status == FailedOperation }

// GetOperation shows how far an operation is. Reads of operations never lag.
//
// Errors: NotFound if there is none or it is forgotten, and what faults answer.
func (c *Cloud) GetOperation(id string) (Operation, error) {
	var out Operation
	err := c.read(Entry{Verb: VerbGetOperation, Operation: id}, func(w *world, now time.Time) error {
		j, err := w.job(id, now)
		if err == nil {
			out = j.view()
		}
		return err
	})
	return out, err
}

// job is an operation as the cloud keeps it.
type job struct {
	Number   int64     `json:"number"`
	Verb     Verb      `json:"verb"`
	Resource Key       `json:"resource"`
	Serial   int64     `json:"serial"`
	Status   Status    `json:"status"`
	Error    *Error    `json:"error,omitempty"`
	Started  time.Time `json:"started"`
	// Due is when it ends, or has ended; Forget is when nobody can ask for it any more,
	// which is not before a token that stands for it expires.
	Due    time.Time `json:"due"`
	Forget time.Time `json:"forget"`
	// Breaks means that it ends half way.
	Breaks bool `json:"breaks,omitempty"`
	// Before is the state of the resource when it began.
	Before State `json:"before,omitempty"`
}

func (j job) id() string { return jobID(j.Number) }

func jobID(number int64) string { return fmt.Sprintf("op-%08d", number) }

func (j job) view() Operation {
	out := Operation{ID: j.id(), Verb: j.Verb, Resource: j.Resource, Serial: j.Serial, Status: j.Status, Started: j.Started}
	if j.Error != nil {
		e := *j.Error
		out.Error = &e
	}
	if out.Done() {
		out.Ended = j.Due
	}
	return out
}

// job finds an operation that can still be asked for.
func (w *world) job(id string, now time.Time) (job, error) {
	j, ok := w.operations.rows[id]
	if !ok || j.Status != Running && !now.Before(j.Forget) {
		return job{}, refuse(NotFound, "there is no operation %q", id)
	}
	return j, nil
}

// start begins an operation on a resource, which is put in the state that the verb
// brings. How long it takes and how it ends is decided here.
func (w *world) start(r row, v Verb, f Fault, now time.Time) job {
	behaviour := w.behaviour(r.Type)
	takes := behaviour.takes(v) + f.Slow
	if f.Break {
		takes /= 2
	}
	w.Operation++
	j := job{
		Number: w.Operation, Verb: v, Resource: r.Key, Serial: r.Serial, Status: Running, Before: r.State,
		Started: now, Due: now.Add(takes), Breaks: f.Break,
	}
	j.Forget = j.Due.Add(behaviour.forget())
	r.Operation, r.Message = j.Number, ""
	r.State = map[Verb]State{VerbCreate: Creating, VerbUpdate: Updating, VerbDelete: Deleting}[v]
	w.operations.put(j)
	w.revise(r)
	w.agenda.add(event{at: j.Due, what: finish, number: j.Number})
	return j
}
