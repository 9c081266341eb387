package queue

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// mostLanes bounds the lanes that are open at a time, and so the turns of others
// that one may have to wait for.
const mostLanes = 4

// model is what the queue promises, told the slow way.
type model struct {
	q             *workQueue
	free, reserve int
	handed, order int
	lanes         []*laneModel
}

// laneModel is what the queue promises of a lane.
type laneModel struct {
	lane *kindQueue
	// waiting holds each key that waits, again each to be repeated, active the keys
	// being worked on.
	waiting, again map[object.Key]askModel
	active         map[object.Key]work
	// passed counts, for each priority with keys waiting, the hand-outs to others in
	// the priority that the lane had to let go while it might have had one itself.
	passed [priorities]int
	// owed counts, for each priority with keys waiting, the lane's hand-outs in others.
	owed [priorities]int
}

func (l *laneModel) waitsIn(priority watch.Priority) bool {
	for _, a := range l.waiting {
		if a.Priority == priority {
			return true
		}
	}
	return false
}

// askModel is how urgently a key was asked for, and which place it has among those
// of its priority.
type askModel struct {
	watch.Priority
	order int
}

func TestQueueKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 9).Draw(t, "workers")
		m := &model{q: newWorkQueue(workers), free: workers}
		if workers > 1 {
			m.reserve = max(1, workers/4)
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": m.open, "add": m.add, "get": m.get, "get once more": m.get, "done": m.done, "close": m.close, "": m.check,
		})
	})
}

func (m *model) open(t *rapid.T) {
	if len(m.lanes) == mostLanes {
		t.Skip("enough lanes")
	}
	m.lanes = append(m.lanes, &laneModel{
		lane: m.q.open(nil), waiting: map[object.Key]askModel{}, again: map[object.Key]askModel{}, active: map[object.Key]work{},
	})
}

func (m *model) some(t *rapid.T) *laneModel {
	if len(m.lanes) == 0 {
		t.Skip("no lane")
	}
	return rapid.SampledFrom(m.lanes).Draw(t, "lane")
}

func (m *model) add(t *rapid.T) {
	l := m.some(t)
	k := key(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key")))
	p := watch.Priority(rapid.IntRange(0, int(watch.Urgent)).Draw(t, "priority"))
	l.lane.Add(k, p)
	in := l.waiting
	if _, working := l.active[k]; working {
		in = l.again
	}
	if had, ok := in[k]; !ok || p > had.Priority {
		m.order++
		in[k] = askModel{p, m.order}
	}
}

// may tells whether a lane may have another worker: the last ones are kept for
// those that have none.
func (m *model) may(l *laneModel) bool {
	return m.free > 0 && (len(l.active) == 0 || m.free > m.reserve)
}

// priorities are those that have work which may be done now.
func (m *model) priorities() (out [priorities]bool) {
	for _, l := range m.lanes {
		for _, a := range l.waiting {
			out[a.Priority] = out[a.Priority] || m.may(l)
		}
	}
	return out
}

func (m *model) get(t *rapid.T) {
	possible := m.priorities()
	if possible == ([priorities]bool{}) {
		if l, _ := m.q.selectNext(); l != nil && m.free > 0 {
			t.Fatal("it hands out what may not be done now")
		}
		t.Skip("it would wait")
	}
	next, _ := m.q.Get()
	m.handed++
	var l *laneModel
	for _, open := range m.lanes {
		if open.lane == next.kind {
			l = open
		}
	}
	if l == nil {
		t.Fatalf("work of a lane that is closed: %v", next.key())
	}
	if !m.may(l) {
		t.Fatalf("a lane with %d passes in flight gets one of %d free workers; %d are kept", len(l.active), m.free, m.reserve)
	}
	m.checkKey(t, l, next)
	priority := next.request.priority
	if l.owed[priority] < lowestEvery { // else the lane's turn in another priority went to it
		m.checkClass(t, priority, possible)
		m.checkTurns(t, l, priority)
	}
	for p := range priorities {
		if l.owed[p]++; p == priority || !l.waitsIn(p) {
			l.owed[p] = 0
		}
	}
	delete(l.waiting, next.key())
	l.active[next.key()] = next
	m.free--
}

// checkKey: a key is worked on by one at a time, and has waited the longest of
// its lane and priority.
func (m *model) checkKey(t *rapid.T, l *laneModel, next work) {
	a, waited := l.waiting[next.key()]
	_, working := l.active[next.key()]
	if !waited || working || a.Priority != next.request.priority {
		t.Fatalf("%v waits: %t, as %d, handed out as %d; is worked on: %t", next.key(), waited, a.Priority, next.request.priority, working)
	}
	for k, other := range l.waiting {
		if other.Priority == a.Priority && other.order < a.order {
			t.Fatalf("%v goes before %v, which came first", next.key(), k)
		}
	}
}

// checkClass: the most urgent goes first but for one hand-out in four.
func (m *model) checkClass(t *rapid.T, priority watch.Priority, possible [priorities]bool) {
	var below, above int
	for p, has := range possible {
		switch {
		case has && p > int(priority):
			above++
		case has && p < int(priority):
			below++
		}
	}
	wrong := above > 0
	switch {
	case m.handed%lowestEvery == 0:
		wrong = below > 0
	case m.handed%lowerEvery == 0:
		wrong = above > 1 || above == 0 && below > 0
	}
	if wrong {
		t.Fatalf("hand-out %d goes to priority %d; there is work in %v", m.handed, priority, possible)
	}
}

// checkTurns: between two hand-outs to a lane in a priority, every other that may
// have one has one.
func (m *model) checkTurns(t *rapid.T, l *laneModel, priority watch.Priority) {
	for _, other := range m.lanes {
		switch {
		case other == l, !other.waitsIn(priority):
			other.passed[priority] = 0
		case m.may(other):
			other.passed[priority]++
		}
		if other.passed[priority] >= mostLanes {
			t.Fatalf("a lane has waited for %d turns in priority %d", other.passed[priority], priority)
		}
	}
}

func (m *model) done(t *rapid.T) {
	l := m.some(t)
	for n := range 10 {
		k := key(fmt.Sprint(n))
		next, working := l.active[k]
		if !working {
			continue
		}
		next.Done()
		m.free++
		delete(l.active, k)
		if a, repeat := l.again[k]; repeat {
			m.order++
			l.waiting[k] = askModel{a.Priority, m.order}
			delete(l.again, k)
		}
		return
	}
	t.Skip("nothing is worked on")
}

// close closes a lane, and ends what is in flight; its workers are free then.
func (m *model) close(t *rapid.T) {
	l := m.some(t)
	over := l.lane.Close()
	for _, next := range l.active {
		select {
		case <-over:
			t.Fatal("it is over while work is in flight")
		default:
		}
		next.Done()
		m.free++
	}
	<-over
	for i := range m.lanes {
		if m.lanes[i] == l {
			m.lanes = append(m.lanes[:i:i], m.lanes[i+1:]...)
			return
		}
	}
}

// check compares the queue with the model after each operation.
func (m *model) check(t *rapid.T) {
	if m.q.free != m.free || len(m.q.kinds) != len(m.lanes) {
		t.Fatalf("%d workers are free, want %d; %d lanes are open, want %d", m.q.free, m.free, len(m.q.kinds), len(m.lanes))
	}
	for i, l := range m.lanes {
		var want, got [priorities]int
		for _, a := range l.waiting {
			want[a.Priority]++
		}
		for p := range got {
			for range l.lane.waiting[p].all() {
				got[p]++
			}
			turns := 0
			for other := range m.q.rounds[p].all() {
				if other == l.lane {
					turns++
				}
			}
			if turns != min(1, want[p]) {
				t.Fatalf("lane %d has %d keys in priority %d, and %d turns", i, want[p], p, turns)
			}
		}
		if got != want || l.lane.depth != len(l.waiting) || l.lane.active != len(l.active) {
			t.Fatalf("lane %d: %v keys wait, want %v; %d in all; %d are worked on, want %d", i, got, want, l.lane.depth, l.lane.active, len(l.active))
		}
		if remembered := len(l.waiting) + len(l.active); len(l.lane.items) != remembered {
			t.Fatalf("lane %d remembers %d keys, want %d", i, len(l.lane.items), remembered)
		}
	}
}
