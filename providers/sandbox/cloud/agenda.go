package cloud

import (
	"cmp"
	"container/heap"
	"time"
)

// event is something that time will do. Events of one moment come in the order of
// what they do and then of its number: in an order that the state alone decides, so
// that a restart changes nothing.
type event struct {
	at   time.Time
	what what
	// number is the operation's, the letter's or the resource's.
	number int64
	// id is the ghost's, the name's or the resource's.
	id string
}

type what int

const (
	finish what = iota // an operation ends
	free               // a name can be used again
	fade               // a ghost isn't seen any more
	reveal             // a resource is seen: nothing happens, but reads differ
	land               // a letter arrives
)

func (e event) compare(other event) int {
	return cmp.Or(e.at.Compare(other.at), cmp.Compare(e.what, other.what), cmp.Compare(e.number, other.number), cmp.Compare(e.id, other.id))
}

// agenda holds the events to come, the next one first.
type agenda []event

// Len, Less, Swap, Push and Pop make it a heap.
func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].compare(a[j]) < 0 }
func (a agenda) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(e any)        { *a = append(*a, e.(event)) }
func (a *agenda) Pop() any {
	last := (*a)[len(*a)-1]
	*a = (*a)[:len(*a)-1]
	return last
}

func (a *agenda) add(e event) { heap.Push(a, e) }

// due takes the next event if its time has come.
func (a *agenda) due(now time.Time) (event, bool) {
	if len(*a) == 0 || (*a)[0].at.After(now) {
		return event{}, false
	}
	return heap.Pop(a).(event), true
}

// stale says that an event has lost its point since it was put on the agenda: somebody
// has ended the operation, another ghost has taken the place.
func (w *world) stale(e event) bool {
	switch e.what {
	case finish:
		return w.operations.rows[jobID(e.number)].Status != Running
	case free:
		return !w.names.rows[e.id].Until.Equal(e.at)
	case fade:
		return !w.ghosts.rows[e.id].Until.Equal(e.at)
	case reveal:
		return w.resources.rows[e.id].Serial != e.number
	default:
		return w.letters.rows[letterID(e.number)].Number != e.number
	}
}

// next is when the next event comes, zero if none is planned.
func (w *world) next() time.Time {
	for len(w.agenda) > 0 && w.stale(w.agenda[0]) {
		heap.Pop(&w.agenda)
	}
	if len(w.agenda) == 0 {
		return time.Time{}
	}
	return w.agenda[0].at
}

// plan makes the agenda of a world that was just read.
func (w *world) plan() {
	w.agenda = nil
	for _, j := range w.operations.rows {
		if j.Status == Running {
			w.agenda = append(w.agenda, event{at: j.Due, what: finish, number: j.Number})
		}
	}
	for _, r := range w.resources.rows {
		if r.Visible.After(w.Seen) {
			w.agenda = append(w.agenda, event{at: r.Visible, what: reveal, number: r.Serial, id: r.id()})
		}
	}
	for id, g := range w.ghosts.rows {
		w.agenda = append(w.agenda, event{at: g.Until, what: fade, id: id})
	}
	for id, n := range w.names.rows {
		w.agenda = append(w.agenda, event{at: n.Until, what: free, id: id})
	}
	for _, l := range w.letters.rows {
		w.agenda = append(w.agenda, event{at: l.Lands, what: land, number: l.Number})
	}
	heap.Init(&w.agenda)
}
