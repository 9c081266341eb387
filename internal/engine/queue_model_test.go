package engine

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/watch"
)

// mostLanes bounds the lanes that are open at a time, and so the turns of others
// that one may have to wait for.
const mostLanes = 4

// model is what the queue promises, told the slow way.
type model struct {
	q     *queue
	lanes []*lane
	// waiting holds the urgency of each key that waits, again that of each key
	// to be repeated, active the keys being worked on.
	waiting, again []map[object.Key]watch.Priority
	active         []map[object.Key]bool
	// passed counts the turns that a lane with work has had to let others go.
	passed []int
}

func TestQueueKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{q: newQueue()}
		t.Repeat(map[string]func(*rapid.T){
			"open": m.open, "add": m.add, "get": m.get, "done": m.done, "close": m.close, "": m.check,
		})
	})
}

func (m *model) open(t *rapid.T) {
	if len(m.lanes) == mostLanes {
		t.Skip("enough lanes")
	}
	m.lanes = append(m.lanes, m.q.open(nil))
	m.waiting = append(m.waiting, map[object.Key]watch.Priority{})
	m.again = append(m.again, map[object.Key]watch.Priority{})
	m.active = append(m.active, map[object.Key]bool{})
	m.passed = append(m.passed, 0)
}

func (m *model) lane(t *rapid.T) int {
	if len(m.lanes) == 0 {
		t.Skip("no lane")
	}
	return rapid.IntRange(0, len(m.lanes)-1).Draw(t, "lane")
}

func (m *model) add(t *rapid.T) {
	i := m.lane(t)
	k := key(fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "key")))
	p := watch.Priority(rapid.IntRange(0, int(watch.Urgent)).Draw(t, "priority"))
	m.lanes[i].add(k, p)
	in := m.waiting[i]
	if m.active[i][k] {
		in = m.again[i]
	}
	had, ok := in[k]
	in[k] = p
	if ok {
		in[k] = max(had, p)
	}
}

func (m *model) get(t *rapid.T) {
	if m.depth() == 0 {
		t.Skip("it would wait")
	}
	l, k, ok := m.q.get()
	i := 0
	for i < len(m.lanes) && m.lanes[i] != l {
		i++
	}
	if !ok || i == len(m.lanes) {
		t.Fatalf("work of a lane that is closed: %v", k)
	}
	p, waited := m.waiting[i][k]
	if !waited || m.active[i][k] {
		t.Fatalf("%v waits: %t, is worked on: %t", k, waited, m.active[i][k])
	}
	for other, urgency := range m.waiting[i] {
		if urgency > p {
			t.Fatalf("%v goes first, though %v is more urgent", k, other)
		}
	}
	delete(m.waiting[i], k)
	m.active[i][k] = true
	for j := range m.lanes {
		if m.passed[j]++; j == i || len(m.waiting[j]) == 0 {
			m.passed[j] = 0
		}
		if m.passed[j] >= mostLanes {
			t.Fatalf("lane %d has waited for %d turns", j, m.passed[j])
		}
	}
}

func (m *model) done(t *rapid.T) {
	i := m.lane(t)
	for n := range 5 {
		k := key(fmt.Sprint(n))
		if !m.active[i][k] {
			continue
		}
		m.lanes[i].done(k)
		delete(m.active[i], k)
		if p, repeat := m.again[i][k]; repeat {
			m.waiting[i][k] = p
			delete(m.again[i], k)
		}
		return
	}
	t.Skip("nothing is worked on")
}

func (m *model) close(t *rapid.T) {
	i := m.lane(t)
	if len(m.active[i]) > 0 {
		t.Skip("it would wait")
	}
	m.lanes[i].close()
	last := len(m.lanes) - 1
	m.lanes[i], m.waiting[i], m.again[i], m.active[i], m.passed[i] = m.lanes[last], m.waiting[last], m.again[last], m.active[last], m.passed[last]
	m.lanes, m.waiting, m.again, m.active, m.passed = m.lanes[:last], m.waiting[:last], m.again[:last], m.active[:last], m.passed[:last]
}

func (m *model) depth() int {
	n := 0
	for _, w := range m.waiting {
		n += len(w)
	}
	return n
}

// check compares the queue with the model after each operation.
func (m *model) check(t *rapid.T) {
	inTurn := map[*lane]int{}
	for _, l := range m.q.turns {
		inTurn[l]++
	}
	for i, l := range m.lanes {
		if l.depth() != len(m.waiting[i]) {
			t.Fatalf("lane %d: %d keys wait, want %d", i, l.depth(), len(m.waiting[i]))
		}
		if len(l.active) != len(m.active[i]) || len(l.again) != len(m.again[i]) {
			t.Fatalf("lane %d: active %v, again %v", i, l.active, l.again)
		}
		if l.hasWork() && inTurn[l] != 1 || inTurn[l] > 1 || l.inTurn != (inTurn[l] == 1) {
			t.Fatalf("lane %d has work: %t, and is in turn %d times", i, l.hasWork(), inTurn[l])
		}
	}
}
