package queue

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// maxKinds bounds the kinds that are open at a time, and so the kinds whose turn may come before
// that of another.
const maxKinds = 4

// model is a slow implementation of what the queue promises.
type model struct {
	q             *workQueue
	free, reserve int
	gets, order   int
	kinds         []*kindModel
}

// kindModel is what the queue promises of a kind.
type kindModel struct {
	queue *kindQueue
	// waiting holds the keys that wait, again those to be repeated, active those that are being
	// reconciled.
	waiting, again map[object.Key]requestModel
	active         map[object.Key]work
	// skipped counts, for each priority with keys waiting, the keys of other kinds that Get has
	// returned in the priority although the kind was allowed to have a worker.
	skipped [priorities]int
	// owed counts, for each priority with keys waiting, the keys of the kind that Get has returned
	// in other priorities.
	owed [priorities]int
}

func (l *kindModel) waitsIn(priority watch.Priority) bool {
	for _, a := range l.waiting {
		if a.Priority == priority {
			return true
		}
	}
	return false
}

// requestModel is the priority of a key, and its place among the keys of the priority.
type requestModel struct {
	watch.Priority
	order int
}

func TestQueueKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := rapid.IntRange(1, 9).Draw(t, "workers")
		m := &model{q: newWorkQueue(workers), free: workers}
		if workers > 1 {
			m.reserve = max(1, workers/4) + workers/8 // all keys are of one namespace
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": m.open, "add": m.add, "get": m.get, "get once more": m.get, "done": m.done, "close": m.close, "": m.check,
		})
	})
}

func (m *model) open(t *rapid.T) {
	if len(m.kinds) == maxKinds {
		t.Skip("enough kinds")
	}
	m.kinds = append(m.kinds, &kindModel{
		queue: m.q.open(nil), waiting: map[object.Key]requestModel{}, again: map[object.Key]requestModel{}, active: map[object.Key]work{},
	})
}

func (m *model) some(t *rapid.T) *kindModel {
	if len(m.kinds) == 0 {
		t.Skip("no kind")
	}
	return rapid.SampledFrom(m.kinds).Draw(t, "kind")
}

func (m *model) add(t *rapid.T) {
	l := m.some(t)
	k := key(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key")))
	p := watch.Priority(rapid.IntRange(0, int(watch.Urgent)).Draw(t, "priority"))
	l.queue.Add(k, p)
	in := l.waiting
	if _, working := l.active[k]; working {
		in = l.again
	}
	if known, ok := in[k]; !ok || p > known.Priority {
		m.order++
		in[k] = requestModel{p, m.order}
	}
}

// mayGet says whether a kind may have another worker: the last ones are reserved for kinds that
// have none.
func (m *model) mayGet(l *kindModel) bool {
	return m.free > 0 && (len(l.active) == 0 || m.free > m.reserve)
}

// priorities are those with keys that Get may return now.
func (m *model) priorities() (out [priorities]bool) {
	for _, l := range m.kinds {
		for _, a := range l.waiting {
			out[a.Priority] = out[a.Priority] || m.mayGet(l)
		}
	}
	return out
}

func (m *model) get(t *rapid.T) {
	possible := m.priorities()
	if possible == ([priorities]bool{}) {
		if l, _ := m.q.selectNext(); l != nil && m.free > 0 {
			t.Fatal("Get returns a key of a kind that may have no worker")
		}
		t.Skip("Get would block")
	}
	next, _ := m.q.Get()
	m.gets++
	var l *kindModel
	for _, open := range m.kinds {
		if open.queue == next.kind {
			l = open
		}
	}
	if l == nil {
		t.Fatalf("Get returns %v of a closed kind", next.key())
	}
	if !m.mayGet(l) {
		t.Fatalf("a kind with %d reconciles in flight gets one of %d free workers; %d are reserved", len(l.active), m.free, m.reserve)
	}
	m.checkKey(t, l, next)
	priority := next.request.priority
	if l.owed[priority] < lowestEvery { // otherwise the priority was overdue for the kind
		m.checkPriority(t, priority, possible)
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

// checkKey: a key has one worker at a time, and has waited the longest of its kind and priority.
func (m *model) checkKey(t *rapid.T, l *kindModel, next work) {
	a, waited := l.waiting[next.key()]
	_, working := l.active[next.key()]
	if !waited || working || a.Priority != next.request.priority {
		t.Fatalf("%v waits: %t, in priority %d, returned in %d; is active: %t", next.key(), waited, a.Priority, next.request.priority, working)
	}
	for k, other := range l.waiting {
		if other.Priority == a.Priority && other.order < a.order {
			t.Fatalf("%v is returned before %v, which was added first", next.key(), k)
		}
	}
}

// checkPriority: the most urgent key is first except in one call of Get in four. That is the turn of the two most urgent
// priorities with keys, also if the first of them may have no worker.
func (m *model) checkPriority(t *rapid.T, priority watch.Priority, possible [priorities]bool) {
	turn := 1 // how many of the most urgent priorities with keys the turn is of
	switch {
	case m.gets%lowestEvery == 0:
		turn = len(possible)
	case m.gets%lowerEvery == 0:
		turn = 2
	}
	want := -1
	for p := len(possible) - 1; p >= 0 && (turn > 0 || want < 0); p-- {
		if possible[p] {
			want = p
		}
		if slices.ContainsFunc(m.kinds, func(k *kindModel) bool { return k.waitsIn(watch.Priority(p)) }) {
			turn--
		}
	}
	if int(priority) != want {
		t.Fatalf("call %d of Get returns priority %d, want %d; keys that may have a worker wait in %v", m.gets, priority, want, possible)
	}
}

// checkTurns: between two keys of a kind in a priority, Get returns one of each other kind that
// may have a worker.
func (m *model) checkTurns(t *rapid.T, l *kindModel, priority watch.Priority) {
	for _, other := range m.kinds {
		switch {
		case other == l, !other.waitsIn(priority):
			other.skipped[priority] = 0
		case m.mayGet(other):
			other.skipped[priority]++
		}
		if other.skipped[priority] >= maxKinds {
			t.Fatalf("a kind has waited for %d others in priority %d", other.skipped[priority], priority)
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
			l.waiting[k] = requestModel{a.Priority, m.order}
			delete(l.again, k)
		}
		return
	}
	t.Skip("nothing is active")
}

// close closes a kind, and ends its reconciles in flight.
func (m *model) close(t *rapid.T) {
	l := m.some(t)
	closed := l.queue.Close()
	for _, next := range l.active {
		select {
		case <-closed:
			t.Fatal("a kind is closed with a reconcile in flight")
		default:
		}
		next.Done()
		m.free++
	}
	<-closed
	for i := range m.kinds {
		if m.kinds[i] == l {
			m.kinds = append(m.kinds[:i:i], m.kinds[i+1:]...)
			return
		}
	}
}

// check compares the queue with the model after each operation.
func (m *model) check(t *rapid.T) {
	if m.q.free != m.free || len(m.q.kinds) != len(m.kinds) {
		t.Fatalf("%d workers are free, want %d; %d kinds are open, want %d", m.q.free, m.free, len(m.q.kinds), len(m.kinds))
	}
	for i, l := range m.kinds {
		var want, got [priorities]int
		for _, a := range l.waiting {
			want[a.Priority]++
		}
		for p := range got {
			for ns := range l.queue.waiting[p].rounds.all() {
				for range ns.items.all() {
					got[p]++
				}
			}
			turns := 0
			for other := range m.q.rounds[p].all() {
				if other == l.queue {
					turns++
				}
			}
			if turns != min(1, want[p]) {
				t.Fatalf("kind %d has %d keys in priority %d, and %d turns", i, want[p], p, turns)
			}
		}
		if got != want || l.queue.depth != len(l.waiting) || l.queue.active != len(l.active) {
			t.Fatalf("kind %d: %v keys wait, want %v; %d in all; %d are active, want %d", i, got, want, l.queue.depth, l.queue.active, len(l.active))
		}
		if want := len(l.waiting) + len(l.active); len(l.queue.items) != want {
			t.Fatalf("kind %d has %d items, want %d", i, len(l.queue.items), want)
		}
	}
}
