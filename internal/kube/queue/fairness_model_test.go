package queue

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// flood is a queue that is never empty: a few kinds, each with keys in some priorities, to which
// a key is added whenever Get returns one; and workers that end their reconciles in any order.
// Reconciles of kinds that hang never end.
type flood struct {
	q       *workQueue
	kinds   []*stream
	active  []work
	workers int
}

// stream is a kind with its keys.
type stream struct {
	queue      *kindQueue
	priorities []watch.Priority
	hangs      bool
	keys       int
	// idle counts the keys of other kinds that Get has returned since the kind had a reconcile in
	// flight.
	idle int
	// skipped counts, by priority, the keys of the kind that Get has returned since the last one
	// of the priority.
	skipped [priorities]int
	active  int
}

func (s *stream) add(p watch.Priority) {
	s.keys++
	s.queue.Add(key(fmt.Sprint(s.keys)), p)
}

// TestNoKindStarves: in whatever order reconciles end, every priority of every kind makes
// progress, and a kind that hangs delays no other.
func TestNoKindStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &flood{workers: rapid.IntRange(1, 9).Draw(t, "workers")}
		f.q = newWorkQueue(f.workers)
		for n := range rapid.IntRange(1, 5).Draw(t, "kinds") {
			s := &stream{queue: f.q.open(nil)}
			s.priorities = rapid.SliceOfNDistinct(rapid.SampledFrom([]watch.Priority{watch.Background, watch.Normal, watch.Urgent}), 1, 3, rapid.ID).Draw(t, "priorities")
			// A kind that hangs has all workers except the reserved ones, others have one of these
			// each, and one worker must be left.
			s.hangs = n < reservedWorkers(f.workers) && rapid.Bool().Draw(t, "hangs")
			for _, p := range s.priorities {
				s.add(p)
				s.add(p)
			}
			f.kinds = append(f.kinds, s)
		}
		// The order is repeated: random choices alone would starve no kind.
		order := rapid.SliceOfN(rapid.IntRange(0, 8), 1, 8).Draw(t, "order")
		f.run(t, order)
	})
}

// TestTheMiddlePriorityHasItsTurn: the urgent kind is at its bound whenever one of a lower priority has its turn.
func TestTheMiddlePriorityHasItsTurn(t *testing.T) {
	f := &flood{workers: 2, q: newWorkQueue(2)}
	for _, p := range []watch.Priority{watch.Background, watch.Normal, watch.Urgent} {
		s := &stream{queue: f.q.open(nil), priorities: []watch.Priority{p}}
		s.add(p)
		s.add(p)
		f.kinds = append(f.kinds, s)
	}
	f.run(t, []int{1, 0, 1, 1})
}

// fataler is a test, or a check of rapid.
type fataler interface {
	Fatal(...any)
	Fatalf(string, ...any)
	Skip(...any)
}

// run hands out keys, and ends reconciles in an order that is repeated.
func (f *flood) run(t fataler, order []int) {
	for i := range 400 {
		for f.get(t) {
		}
		f.checkIdle(t)
		f.end(t, order[i%len(order)])
	}
}

// get gives a free worker a key, if there is one.
func (f *flood) get(t fataler) bool {
	if l, _ := f.q.selectNext(); l == nil || len(f.active) == f.workers {
		return false
	}
	next, _ := f.q.Get()
	f.active = append(f.active, next)
	for _, s := range f.kinds {
		isReturned := s.queue == next.kind
		if isReturned {
			s.active++
			s.add(next.request.priority)
		}
		s.idle++
		if s.active > 0 {
			s.idle = 0
		}
		for _, p := range s.priorities {
			if isReturned {
				s.skipped[p]++
			}
		}
		if isReturned {
			s.skipped[next.request.priority] = 0
		}
		f.check(t, s)
	}
	return true
}

func (f *flood) check(t fataler, s *stream) {
	// Each priority gets at least one call of Get in sixteen, and in it each kind in turn.
	if s.idle > lowestEvery*len(f.kinds) {
		t.Fatalf("a kind with keys in %v got none of %d calls of Get, and has no reconcile in flight", s.priorities, s.idle)
	}
	for _, p := range s.priorities {
		// All other priorities except one may be due before it.
		if s.skipped[p] > lowestEvery+int(priorities)-2 {
			t.Fatalf("a kind got %d calls of Get, and none of them in priority %d", s.skipped[p], p)
		}
	}
}

// checkIdle: no worker is idle except the reserved ones.
func (f *flood) checkIdle(t fataler) {
	idle := f.workers - len(f.active)
	for _, s := range f.kinds {
		if idle > reservedWorkers(f.workers)+reservedForNamespaces(f.workers) || idle > 0 && s.active == 0 {
			t.Fatalf("%d workers are idle, and a kind with %d reconciles in flight waits", idle, s.active)
		}
	}
}

// end ends one of the reconciles that don't hang.
func (f *flood) end(t fataler, which int) {
	var ending []*stream
	var at []int
	waits := false
	for _, s := range f.kinds {
		waits = waits || !s.hangs
		for i, next := range f.active {
			if next.kind == s.queue && !s.hangs {
				ending, at = append(ending, s), append(at, i)
			}
		}
	}
	if len(ending) == 0 {
		if waits {
			t.Fatal("the kinds that hang have all workers")
		}
		t.Skip("all kinds hang")
	}
	which %= len(ending)
	ending[which].active--
	f.active[at[which]].Done()
	f.active = slices.Delete(f.active, at[which], at[which]+1)
}
