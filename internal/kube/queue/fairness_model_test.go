package queue

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// flood is work without end: a few lanes, each with keys in some priorities, more of
// which come as soon as they are handed out; and workers that end their passes in
// whatever order hurts most. Passes of lanes that hang never end.
type flood struct {
	q       *workQueue
	lanes   []*stream
	flight  []work
	workers int
}

type stream struct {
	lane       *kindQueue
	priorities []watch.Priority
	hangs      bool
	keys       int
	// idle counts the hand-outs to others since the lane had a pass in flight.
	idle int
	// passed counts, by priority, the lane's hand-outs since its last in the priority.
	passed [priorities]int
	active int
}

func (s *stream) add(p watch.Priority) {
	s.keys++
	s.lane.Add(key(fmt.Sprint(s.keys)), p)
}

// TestNobodyStarves: however passes take their time, every priority of every kind
// goes on, and a kind that hangs holds up itself alone.
func TestNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &flood{workers: rapid.IntRange(1, 9).Draw(t, "workers")}
		f.q = newWorkQueue(f.workers)
		for n := range rapid.IntRange(1, 5).Draw(t, "lanes") {
			s := &stream{lane: f.q.open(nil)}
			s.priorities = rapid.SliceOfNDistinct(rapid.SampledFrom([]watch.Priority{watch.Background, watch.Normal, watch.Urgent}), 1, 3, rapid.ID).Draw(t, "priorities")
			// One that hangs has all workers but those kept, others one each of these, and
			// one must be left.
			s.hangs = n < reservedWorkers(f.workers) && rapid.Bool().Draw(t, "hangs")
			for _, p := range s.priorities {
				s.add(p)
				s.add(p)
			}
			f.lanes = append(f.lanes, s)
		}
		// The rhythm is repeated: random choices alone would starve no kind.
		rhythm := rapid.SliceOfN(rapid.IntRange(0, 8), 1, 8).Draw(t, "rhythm")
		for i := range 400 {
			for f.handOut(t) {
			}
			f.checkIdle(t)
			f.end(t, rhythm[i%len(rhythm)])
		}
	})
}

// handOut gives a free worker something to do, if there is anything.
func (f *flood) handOut(t *rapid.T) bool {
	if l, _ := f.q.selectNext(); l == nil || len(f.flight) == f.workers {
		return false
	}
	next, _ := f.q.Get()
	f.flight = append(f.flight, next)
	for _, s := range f.lanes {
		mine := s.lane == next.kind
		if mine {
			s.active++
			s.add(next.request.priority)
		}
		s.idle++
		if s.active > 0 {
			s.idle = 0
		}
		for _, p := range s.priorities {
			if mine {
				s.passed[p]++
			}
		}
		if mine {
			s.passed[next.request.priority] = 0
		}
		f.check(t, s)
	}
	return true
}

func (f *flood) check(t *rapid.T, s *stream) {
	// Each priority has one hand-out in sixteen at least, and each lane its turn in it.
	if s.idle > lowestEvery*len(f.lanes) {
		t.Fatalf("a lane with work in %v has had none of %d hand-outs, and no pass in flight", s.priorities, s.idle)
	}
	for _, p := range s.priorities {
		// All other priorities but one may be owed a hand-out before it.
		if s.passed[p] > lowestEvery+int(priorities)-2 {
			t.Fatalf("a lane had %d hand-outs, and none of them in priority %d", s.passed[p], p)
		}
	}
}

// checkIdle: no worker is left idle but for the sake of kinds to come.
func (f *flood) checkIdle(t *rapid.T) {
	idle := f.workers - len(f.flight)
	for _, s := range f.lanes {
		if idle > reservedWorkers(f.workers) || idle > 0 && s.active == 0 {
			t.Fatalf("%d workers are idle, and a lane with %d passes in flight waits", idle, s.active)
		}
	}
}

// end ends one of the passes that don't hang.
func (f *flood) end(t *rapid.T, which int) {
	var mortal []*stream
	var at []int
	waits := false
	for _, s := range f.lanes {
		waits = waits || !s.hangs
		for i, next := range f.flight {
			if next.kind == s.lane && !s.hangs {
				mortal, at = append(mortal, s), append(at, i)
			}
		}
	}
	if len(mortal) == 0 {
		if waits {
			t.Fatal("the kinds that hang have all workers")
		}
		t.Skip("all kinds hang")
	}
	which %= len(mortal)
	mortal[which].active--
	f.flight[at[which]].Done()
	f.flight = slices.Delete(f.flight, at[which], at[which]+1)
}
