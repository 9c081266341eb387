package queue

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// model is a slow implementation of what the queue promises.
type model struct {
	q              *kindQueue
	started, order int
	waiting, again map[object.Key]requestModel // again those that are requested during their reconciles
	active         map[object.Key]work
	calling        map[object.Key]func() // the ends of their calls
}

// requestModel is the priority of a key, and its place among the keys of its priority and namespace.
type requestModel struct {
	watch.Priority
	order int
}

const modelNamespaces = 3

func TestAQueueKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			q: newKindQueue(nil, rapid.IntRange(1, 9).Draw(t, "workers")), waiting: map[object.Key]requestModel{}, again: map[object.Key]requestModel{},
			active: map[object.Key]work{}, calling: map[object.Key]func(){},
		}
		t.Repeat(map[string]func(*rapid.T){"add": m.add, "start": m.start, "start once more": m.start, "done": m.done, "call": m.call, "": m.check})
	})
}

func (m *model) add(t *rapid.T) {
	n := rapid.IntRange(0, 14).Draw(t, "key")
	k := object.Key{Kind: "Vpc", Namespace: fmt.Sprint(n % modelNamespaces), Name: fmt.Sprint(n)}
	p := watch.Priority(rapid.IntRange(0, int(watch.Urgent)).Draw(t, "priority"))
	m.q.Add(k, p)
	in := m.waiting
	if _, is := m.active[k]; is {
		in = m.again
	}
	if known, ok := in[k]; !ok || p > known.Priority {
		m.order++
		in[k] = requestModel{p, m.order}
	}
}

// running counts the reconciles without those that call an external system, of a namespace or of all.
func (m *model) running(namespace string) (n int) {
	for k := range m.active {
		if m.calling[k] == nil && (namespace == "" || k.Namespace == namespace) {
			n++
		}
	}
	return n
}

// possible are the priorities of keys that may be started now.
func (m *model) possible() (out [priorities]bool) {
	for k, a := range m.waiting {
		out[a.Priority] = out[a.Priority] || m.running("") < m.q.limits.running && m.running(k.Namespace) < m.q.limits.runningOf
	}
	return out
}

func (m *model) start(t *rapid.T) {
	possible := m.possible()
	next, ok := m.q.get()
	if ok != (possible != [priorities]bool{}) {
		t.Fatalf("a key is started: %t; keys of priorities that may be: %v", ok, possible)
	}
	if !ok {
		t.Skip("nothing may be started")
	}
	m.started++
	k := next.key()
	a, waited := m.waiting[k]
	if _, is := m.active[k]; !waited || is || a.Priority != next.request.priority {
		t.Fatalf("%v waits: %t, in priority %d, started in %d; is active: %t", k, waited, a.Priority, next.request.priority, is)
	}
	for other, b := range m.waiting {
		if other.Namespace == k.Namespace && b.Priority == a.Priority && b.order < a.order {
			t.Fatalf("%v is started before %v, which was added first", k, other)
		}
	}
	m.checkPriority(t, a.Priority, possible)
	delete(m.waiting, k)
	m.active[k] = next
}

// checkPriority: the most urgent key is first except for one in four, which is of the next priority, and one in sixteen, which is
// of the lowest.
func (m *model) checkPriority(t *rapid.T, priority watch.Priority, possible [priorities]bool) {
	skip := 0
	switch {
	case m.started%lowestEvery == 0:
		skip = len(possible)
	case m.started%lowerEvery == 0:
		skip = 1
	}
	want := -1
	for p := len(possible) - 1; p >= 0 && (want < 0 || skip >= 0); p-- {
		if possible[p] {
			want, skip = p, skip-1
		}
	}
	if int(priority) != want {
		t.Fatalf("start %d is of priority %d, want %d of %v", m.started, priority, want, possible)
	}
}

func (m *model) some(t *rapid.T) object.Key {
	if len(m.active) == 0 {
		t.Skip("nothing is active")
	}
	var keys []object.Key
	for k := range m.active {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, object.Key.Compare)
	return rapid.SampledFrom(keys).Draw(t, "active")
}

func (m *model) done(t *rapid.T) {
	k := m.some(t)
	if end := m.calling[k]; end != nil {
		end()
		delete(m.calling, k)
	}
	m.active[k].Done()
	delete(m.active, k)
	if a, repeat := m.again[k]; repeat {
		m.order++
		m.waiting[k] = requestModel{a.Priority, m.order}
		delete(m.again, k)
	}
}

// call begins or ends a call of an external system.
func (m *model) call(t *rapid.T) {
	k := m.some(t)
	if end := m.calling[k]; end != nil {
		end()
		delete(m.calling, k)
		return
	}
	of := 0
	for other := range m.calling {
		if other.Namespace == k.Namespace {
			of++
		}
	}
	end := m.active[k].Calling()
	if len(m.calling) < m.q.limits.calls && of < m.q.limits.callsOf {
		m.calling[k] = end
	}
}

// check compares the queue with the model after each operation.
func (m *model) check(t *rapid.T) {
	var want, got [priorities]int
	for _, a := range m.waiting {
		want[a.Priority]++
	}
	for p := range got {
		got[p] = m.q.waiting[p].len
		if len(m.q.waiting[p].byName) != m.q.waiting[p].turns.Len() {
			t.Fatalf("priority %d has %d namespaces and %d turns", p, len(m.q.waiting[p].byName), m.q.waiting[p].turns.Len())
		}
	}
	if got != want || m.q.running.total != m.running("") || m.q.calls.total != len(m.calling) || len(m.q.items) != len(m.waiting)+len(m.active) {
		t.Fatalf("%v keys wait, want %v; %d run, want %d; %d call, want %d; %d items", got, want, m.q.running.total, m.running(""), m.q.calls.total, len(m.calling), len(m.q.items))
	}
}

// TestNamespacesHaveTheirTurns: between two keys of a namespace, each other one with keys of the priority has one.
func TestNamespacesHaveTheirTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newKindQueue(nil, 1)
		since := map[string]int{}
		add := func(namespace string, n int) {
			q.Add(object.Key{Kind: "Vpc", Namespace: namespace, Name: fmt.Sprint(n)}, watch.Normal)
		}
		for n, namespace := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 40).Draw(t, "keys") {
			add(namespace, n)
		}
		for next, ok := q.get(); ok; next, ok = q.get() {
			for namespace := range q.waiting[watch.Normal].byName {
				since[namespace]++
			}
			since[next.namespace] = 0
			for namespace, n := range since {
				if n > 3 {
					t.Fatalf("namespace %s has waited for %d keys of others", namespace, n)
				}
			}
			next.Done()
		}
	})
}
