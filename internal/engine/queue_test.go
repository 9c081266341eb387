package engine

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/watch"
)

func key(name string) object.Key { return object.Key{Kind: "Vpc", Namespace: "prod", Name: name} }

// drained are the names that the queue hands out until nothing is left, each
// done before the next.
func drained(q *queue) []string {
	var out []string
	for {
		q.mu.Lock()
		waits := 0
		for l := range q.lanes {
			waits += len(l.queued)
		}
		q.mu.Unlock()
		if waits == 0 {
			return out
		}
		l, k, _ := q.get()
		out = append(out, k.Name)
		l.done(k)
	}
}

func TestOrderOfWork(t *testing.T) {
	type add struct {
		name string
		p    watch.Priority
	}
	cases := map[string]struct {
		reason string
		adds   []add
		want   []string
	}{
		"Equal keys coalesce": {
			reason: "one look sees all that has happened",
			adds:   []add{{"a", watch.Normal}, {"a", watch.Normal}, {"b", watch.Normal}, {"a", watch.Background}},
			want:   []string{"a", "b"},
		},
		"The more urgent goes first": {
			reason: "a person waits for it",
			adds:   []add{{"replay", watch.Background}, {"status", watch.Normal}, {"edit", watch.Urgent}},
			want:   []string{"edit", "status", "replay"},
		},
		"Of equal urgency, who came first": {
			reason: "nobody starves",
			adds:   []add{{"b", watch.Normal}, {"a", watch.Normal}, {"c", watch.Normal}},
			want:   []string{"b", "a", "c"},
		},
		"A key that becomes urgent moves ahead, once": {
			reason: "its older place doesn't count any more",
			adds:   []add{{"a", watch.Background}, {"b", watch.Background}, {"b", watch.Urgent}},
			want:   []string{"b", "a"},
		},
		"A key doesn't become less urgent": {
			reason: "the urgent cause has not been handled yet",
			adds:   []add{{"b", watch.Normal}, {"a", watch.Urgent}, {"a", watch.Background}},
			want:   []string{"a", "b"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := newQueue()
			l := q.open(nil)
			for _, a := range tc.adds {
				l.add(key(a.name), a.p)
			}
			if diff := cmp.Diff(tc.want, drained(q)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAKeyIsWorkedOnByOneAtATime(t *testing.T) {
	q := newQueue()
	l := q.open(nil)
	l.add(key("a"), watch.Normal)
	_, k, _ := q.get()
	l.add(k, watch.Background)
	l.add(k, watch.Urgent)
	l.add(key("b"), watch.Normal)
	if n := l.depth(); n != 1 {
		t.Fatalf("%d keys wait; what is worked on must not be handed out again", n)
	}
	l.done(k)
	if diff := cmp.Diff([]string{"a", "b"}, drained(q)); diff != "" {
		t.Errorf("what was added meanwhile is repeated, as urgently as it was asked for (-want +got):\n%s", diff)
	}
}

func TestLanesTakeTurns(t *testing.T) {
	q := newQueue()
	crowd, single := q.open(nil), q.open(nil)
	for i := range 10_000 {
		crowd.add(key(fmt.Sprint("crowd-", i)), watch.Urgent)
	}
	single.add(key("single"), watch.Background)
	single.add(key("second"), watch.Background)
	var got []string
	for range 4 {
		l, k, _ := q.get()
		got = append(got, k.Name)
		l.done(k)
	}
	if diff := cmp.Diff([]string{"crowd-0", "single", "crowd-1", "second"}, got); diff != "" {
		t.Errorf("a full lane holds up another (-want +got):\n%s", diff)
	}
	crowd.close()
	single.close()
}

func TestOfSeveralDelaysTheEarliestCounts(t *testing.T) {
	cases := map[string]struct {
		delays []time.Duration
		want   time.Duration
	}{
		"A later one changes nothing":  {[]time.Duration{time.Second, time.Minute}, time.Second},
		"An earlier one takes over":    {[]time.Duration{time.Minute, time.Second}, time.Second},
		"An equal one changes nothing": {[]time.Duration{time.Second, time.Second}, time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				l := q.open(nil)
				began := time.Now()
				for _, d := range tc.delays {
					l.addAfter(key("a"), d, watch.Normal)
				}
				_, k, _ := q.get()
				if took := time.Since(began); took != tc.want {
					t.Errorf("want it after %s, got it after %s", tc.want, took)
				}
				l.done(k)
				<-time.After(time.Hour)
				if n := l.depth(); n != 0 {
					t.Errorf("%d more came of it", n)
				}
			})
		})
	}
}

func TestFailedWorkComesBackEverLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		l := q.open(nil)
		last := time.Duration(0)
		for range 100 {
			began := time.Now()
			l.retry(key("a"))
			_, k, _ := q.get()
			took := time.Since(began)
			if took < firstDelay/2 || took > longestDelay || took < last && last < longestDelay/2 {
				t.Errorf("after %s it came back after %s", last, took)
			}
			last = took
			l.done(k)
		}
		if last < longestDelay/2 {
			t.Errorf("after a hundred failures it comes back after %s", last)
		}
		l.forget(key("a"))
		began := time.Now()
		l.retry(key("a"))
		_, k, _ := q.get()
		if took := time.Since(began); took > firstDelay {
			t.Errorf("what has succeeded starts anew, not after %s", took)
		}
		l.done(k)
	})
}

func TestClosingALane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		l, other := q.open(nil), q.open(nil)
		l.add(key("a"), watch.Normal)
		l.add(key("b"), watch.Normal)
		l.addAfter(key("c"), time.Second, watch.Normal)
		other.add(key("other"), watch.Normal)
		_, k, _ := q.get()
		closed := make(chan struct{})
		go func() { l.close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("it closed while work was in flight")
		default:
		}
		l.add(k, watch.Urgent) // too late to be repeated
		l.add(key("d"), watch.Normal)
		l.retry(key("e"))
		l.done(k)
		<-closed
		<-time.After(time.Hour)
		if diff := cmp.Diff([]string{"other"}, drained(q)); diff != "" {
			t.Errorf("what is left of a closed lane's work (-want +got):\n%s", diff)
		}
		l.close() // may be called again
	})
}

func TestClosingTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		l := q.open(nil)
		l.addAfter(key("later"), time.Minute, watch.Normal)
		var workers sync.WaitGroup
		for range 3 {
			workers.Go(func() {
				if _, _, ok := q.get(); ok {
					t.Error("a closed queue hands out work")
				}
			})
		}
		synctest.Wait()
		q.close()
		workers.Wait()
		l.add(key("a"), watch.Urgent)
		if _, _, ok := q.get(); ok {
			t.Error("a closed queue takes work")
		}
	})
}

// TestStorm lets workers and callers loose on the queue: no key is worked on
// twice at once, and each key is looked at after the last time it was added.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lanes, keys, adders, rounds = 3, 7, 5, 200
		q := newQueue()
		var all []*lane
		for range lanes {
			all = append(all, q.open(nil))
		}
		var mu sync.Mutex
		added, seen, working := map[string]int{}, map[string]int{}, map[string]bool{}
		name := func(l *lane, k object.Key) string { return fmt.Sprint(slices.Index(all, l), "/", k.Name) }
		var workers, callers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for {
					l, k, ok := q.get()
					if !ok {
						return
					}
					id := name(l, k)
					mu.Lock()
					if working[id] {
						t.Errorf("%s is worked on twice at once", id)
					}
					working[id], seen[id] = true, added[id]
					mu.Unlock()
					<-time.After(time.Millisecond)
					mu.Lock()
					working[id] = false
					mu.Unlock()
					l.done(k)
				}
			})
		}
		for a := range adders {
			callers.Go(func() {
				for i := range rounds {
					l, k := all[(a+i)%lanes], key(fmt.Sprint((a*i)%keys))
					mu.Lock()
					added[name(l, k)]++
					mu.Unlock()
					if i%5 == 0 {
						l.addAfter(k, time.Duration(i)*time.Millisecond, watch.Background)
					} else {
						l.add(k, watch.Priority(i%3))
					}
					<-time.After(time.Duration(i%3) * time.Millisecond)
				}
			})
		}
		callers.Wait()
		<-time.After(time.Hour)
		q.close()
		workers.Wait()
		if diff := cmp.Diff(added, seen); diff != "" {
			t.Errorf("something was added and not looked at since (-added +seen):\n%s", diff)
		}
	})
}
