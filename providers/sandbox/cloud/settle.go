package cloud

import "time"

// settle lets everything happen that has come due, in its order, each at its time:
// how often and when it is asked for makes no difference.
func (w *world) settle(now time.Time) {
	for {
		e, ok := w.agenda.due(now)
		if !ok {
			break
		}
		if w.stale(e) {
			continue
		}
		switch e.what {
		case finish:
			w.finish(w.operations.rows[jobID(e.number)])
		case free:
			w.names.drop(e.id)
		case fade:
			w.ghosts.drop(e.id)
		case reveal: // the time alone makes the difference
		case land:
			w.open(w.letters.rows[letterID(e.number)])
		}
	}
	w.Seen = now
}

// finish ends an operation in its time.
func (w *world) finish(j job) {
	r := w.resources.rows[j.Resource.id()]
	if j.Breaks {
		w.breakDown(j, r)
		return
	}
	j.Status = Succeeded
	w.operations.put(j)
	if j.Verb == VerbDelete {
		if j.Due.Equal(j.Started) {
			r.State = j.Before // nobody could see it being deleted
		}
		w.vanish(r, j.Due)
		return
	}
	if !r.Next.IsZero() {
		r.Properties = r.Next
	}
	r.State, r.Operation, r.Next = Active, 0, box{}
	r.Outputs = outputs(r)
	w.revise(r)
}

// breakDown ends an operation half way: the resource is there, but not as it should
// be.
func (w *world) breakDown(j job, r row) {
	j.Status, j.Error = FailedOperation, refuse(InvalidState, "%s of %s failed half way", j.Verb, j.Resource)
	w.operations.put(j)
	r.State, r.Operation, r.Next = Failed, 0, box{}
	r.Message = j.Error.Message
	w.revise(r)
}

// vanish takes a resource out of the world. Reads may show it for a while, and its
// name may be taken.
func (w *world) vanish(r row, now time.Time) {
	behaviour := w.behaviour(r.Type)
	w.resources.drop(r.id())
	if behaviour.DeleteLag > 0 && !r.Visible.After(now) {
		g := ghost{Row: r, Until: now.Add(behaviour.DeleteLag)}
		w.ghosts.put(g)
		w.agenda.add(event{at: g.Until, what: fade, id: g.id()})
	}
	if behaviour.ReuseAfter > 0 && behaviour.callerNames() {
		n := taken{Key: r.Key, Until: now.Add(behaviour.ReuseAfter)}
		w.names.put(n)
		w.agenda.add(event{at: n.Until, what: free, id: n.id()})
	}
}

// taken is a name that can't be used yet, though its resource is gone.
type taken struct {
	Key   Key       `json:"key"`
	Until time.Time `json:"until"`
}

func (t taken) id() string { return t.Key.id() }
