package queue

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/kube/watch"
)

// many is more keys than a test's hand-outs.
const many = 1000

// crowded returns a lane in which many keys wait in a priority.
func crowded(q *workQueue, name string, p watch.Priority) *kindQueue {
	l := q.open(nil)
	for i := range many {
		l.Add(key(fmt.Sprint(name, "-", i)), p)
	}
	return l
}

// handedOut are the names that the queue hands out next, each done before the
// next.
func handedOut(q *workQueue, n int) (names []string) {
	for range n {
		next, _ := q.Get()
		names = append(names, next.key().Name)
		next.Done()
	}
	return names
}

func TestKindsTakeTurnsWithinAClass(t *testing.T) {
	q := newWorkQueue(1)
	crowded(q, "crowd", watch.Normal)
	single := q.open(nil)
	single.Add(key("single"), watch.Normal)
	single.Add(key("second"), watch.Normal)
	want := []string{"crowd-0", "single", "crowd-1", "second"}
	if diff := cmp.Diff(want, handedOut(q, 4)); diff != "" {
		t.Errorf("a full lane holds up another (-want +got):\n%s", diff)
	}
}

func TestPriorityAppliesAcrossKinds(t *testing.T) {
	q := newWorkQueue(1)
	for i := range 100 {
		crowded(q, fmt.Sprint("resync-", i), watch.Background)
	}
	handedOut(q, 2)
	q.open(nil).Add(key("person"), watch.Urgent)
	if diff := cmp.Diff([]string{"person"}, handedOut(q, 1)); diff != "" {
		t.Errorf("resyncs go before a person's change (-want +got):\n%s", diff)
	}
}

func TestLowerClassesGoOn(t *testing.T) {
	names := map[watch.Priority]string{watch.Urgent: "U", watch.Normal: "n", watch.Background: "b"}
	cases := map[string]struct {
		waiting []watch.Priority
		want    string
	}{
		"One hand-out in four for the next priority, one in sixteen for the lowest": {
			waiting: []watch.Priority{watch.Urgent, watch.Normal, watch.Background},
			want:    "UUUnUUUnUUUnUUUbUUUnUUUn",
		},
		"Of two priorities the lower one is next, and lowest": {
			waiting: []watch.Priority{watch.Urgent, watch.Background},
			want:    "UUUbUUUbUUUbUUUbUUUbUUUb",
		},
		"Also where nothing is urgent": {
			waiting: []watch.Priority{watch.Normal, watch.Background},
			want:    "nnnbnnnbnnnbnnnbnnnbnnnb",
		},
		"A single kind gets all workers": {
			waiting: []watch.Priority{watch.Background},
			want:    "bbbbbbbbbbbbbbbbbbbbbbbb",
		},
	}
	for name, tc := range cases {
		for where, apart := range map[string]bool{"in one lane": false, "in lanes of their own": true} {
			t.Run(name+" "+where, func(t *testing.T) {
				q := newWorkQueue(1)
				l := q.open(nil)
				for _, p := range tc.waiting {
					if apart {
						l = q.open(nil)
					}
					for i := range 100 {
						l.Add(key(fmt.Sprint(p, i)), p)
					}
				}
				got := ""
				for range len(tc.want) {
					next, _ := q.Get()
					got += names[next.request.priority]
					next.Done()
				}
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestAClassIsNotAlwaysPassedOver has two kinds with a worker each, whose passes
// take equally long: one of them is always at its bound when a lower priority has
// its turn.
func TestAClassIsNotAlwaysPassedOver(t *testing.T) {
	q := newWorkQueue(2)
	for _, name := range []string{"a", "b"} {
		l := q.open(nil)
		for p := range priorities {
			for i := range many {
				l.Add(key(fmt.Sprint(name, p, "-", i)), p)
			}
		}
	}
	passed := map[*kindQueue]*[priorities]int{}
	for l := range q.kinds {
		passed[l] = &[priorities]int{}
	}
	before, _ := q.Get()
	for range many {
		next, _ := q.Get()
		of := passed[next.kind]
		for p := range of {
			of[p]++
		}
		of[next.request.priority] = 0
		if most := max(of[0], of[1], of[2]); most > lowestEvery+1 {
			t.Fatalf("a lane's hand-outs: %v since each priority had one", of)
		}
		before.Done()
		before = next
	}
}

func TestReservedWorkers(t *testing.T) {
	for workers, want := range map[int]int{1: 0, 2: 1, 3: 1, 4: 1, 7: 1, 8: 2, 64: 16} {
		if got := reservedWorkers(workers); got != want {
			t.Errorf("of %d workers %d are kept, want %d", workers, got, want)
		}
	}
}

func TestOneKindCannotHaveAllWorkers(t *testing.T) {
	q := newWorkQueue(4)
	hog, other := crowded(q, "hog", watch.Urgent), q.open(nil)
	var turns []work
	for range 3 {
		next, _ := q.Get()
		turns = append(turns, next)
	}
	if l, _ := q.selectNext(); l != nil {
		t.Fatal("the last worker is not kept")
	}
	other.Add(key("other"), watch.Background)
	next, _ := q.Get()
	if next.kind != other {
		t.Fatal("a kind without a pass in flight gets no worker")
	}
	other.Add(key("second"), watch.Background)
	turns[0].Done()
	if l, _ := q.selectNext(); l != nil {
		t.Fatal("the last worker is not kept, now that all kinds have one")
	}
	next.Done()
	if next, _ = q.Get(); next.kind != hog {
		t.Fatal("a kind that was passed over lost its turn")
	}
	if next, _ = q.Get(); next.kind != other {
		t.Fatal("a kind without a pass in flight gets no worker")
	}
}
