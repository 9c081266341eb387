package queue

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

func key(name string) object.Key { return object.Key{Kind: "Vpc", Namespace: "prod", Name: name} }

// drained returns the names of all keys in the order of Get, each done before the next.
func drained(q *workQueue) []string {
	var out []string
	for waiting(q) > 0 {
		next, _ := q.Get()
		out = append(out, next.key().Name)
		next.Done()
	}
	return out
}

// waiting counts the waiting keys.
func waiting(q *workQueue) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for l := range q.kinds {
		n += l.depth
	}
	return n
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
			reason: "one reconcile sees all changes",
			adds:   []add{{"a", watch.Normal}, {"a", watch.Normal}, {"b", watch.Normal}, {"a", watch.Background}},
			want:   []string{"a", "b"},
		},
		"The most urgent key is first": {
			reason: "a user waits for it",
			adds:   []add{{"replay", watch.Background}, {"status", watch.Normal}, {"edit", watch.Urgent}},
			want:   []string{"edit", "status", "replay"},
		},
		"Of one priority, the key that was added first": {
			reason: "no key starves",
			adds:   []add{{"b", watch.Normal}, {"a", watch.Normal}, {"c", watch.Normal}},
			want:   []string{"b", "a", "c"},
		},
		"A key that becomes urgent is returned once, and earlier": {
			reason: "it leaves its place in the lower priority",
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
			q := newWorkQueue(1)
			l := q.open(nil)
			for _, a := range tc.adds {
				l.Add(key(a.name), a.p)
			}
			if diff := cmp.Diff(tc.want, drained(q)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAKeyHasOneWorkerAtATime(t *testing.T) {
	q := newWorkQueue(2)
	l := q.open(nil)
	l.Add(key("a"), watch.Normal)
	next, _ := q.Get()
	l.Add(next.key(), watch.Background)
	l.Add(next.key(), watch.Urgent)
	l.Add(key("b"), watch.Normal)
	if n := waiting(q); n != 1 {
		t.Fatalf("%d keys wait; a key with a worker must not be returned again", n)
	}
	next.Done()
	if diff := cmp.Diff([]string{"a", "b"}, drained(q)); diff != "" {
		t.Errorf("a key that was added meanwhile is repeated, in its highest priority (-want +got):\n%s", diff)
	}
}

// TestAKeyHasOnePlace adds a key in rising priorities before a worker is free, again and again.
func TestAKeyHasOnePlace(t *testing.T) {
	q := newWorkQueue(1)
	l := q.open(nil)
	for range 1000 {
		for p := range priorities {
			l.Add(key("a"), p)
		}
		next, _ := q.Get()
		if p := next.request.priority; p != watch.Urgent {
			t.Fatalf("the key is returned in priority %d", p)
		}
		next.Done()
		for p := range priorities {
			if !l.waiting[p].empty() || l.rounds[p].isLinked() {
				t.Fatalf("the key still waits in priority %d", p)
			}
		}
		if len(l.items) > 0 {
			t.Fatal("a key without requests has an item")
		}
	}
}

func TestWaitIsMeasuredFromTheFirstAdd(t *testing.T) {
	cases := map[string]func(l *kindQueue, add func()){
		"While it waits": func(_ *kindQueue, add func()) { add() },
		"While it is reconciled": func(l *kindQueue, add func()) {
			l.Add(key("a"), watch.Urgent)
			next, _ := l.parent.Get()
			<-time.After(time.Minute)
			add()
			next.Done()
		},
	}
	for name, play := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newWorkQueue(1).open(nil)
				var began time.Time
				play(l, func() {
					began = time.Now()
					for _, p := range []watch.Priority{watch.Background, watch.Normal, watch.Background} {
						l.Add(key("a"), p)
						<-time.After(time.Second)
					}
				})
				next, _ := l.parent.Get()
				want := request{priority: watch.Normal, since: began}
				if next.request != want {
					t.Errorf("want %v, got %v", want, next.request)
				}
			})
		})
	}
}

func TestClosingAKindQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newWorkQueue(2)
		l, other := q.open(nil), q.open(nil)
		l.Add(key("a"), watch.Normal)
		l.Add(key("b"), watch.Normal)
		l.AddAfter(key("c"), time.Second, watch.Normal, nil)
		next, _ := q.Get()
		other.Add(key("other"), watch.Normal)
		closed := l.Close()
		select {
		case <-closed:
			t.Error("the kind is closed with a reconcile in flight")
		default:
		}
		l.Add(next.key(), watch.Urgent) // too late
		l.Add(key("d"), watch.Normal)
		l.AddAfter(key("e"), time.Second, watch.Normal, nil)
		next.AddRateLimited(0)
		next.Done()
		<-closed
		<-time.After(time.Hour)
		if diff := cmp.Diff([]string{"other"}, drained(q)); diff != "" {
			t.Errorf("keys after the kind was closed (-want +got):\n%s", diff)
		}
		<-l.Close() // may be called again
	})
}

func TestClosingTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newWorkQueue(3)
		l := q.open(nil)
		l.AddAfter(key("later"), time.Minute, watch.Normal, nil)
		var workers sync.WaitGroup
		for range 3 {
			workers.Go(func() {
				if _, ok := q.Get(); ok {
					t.Error("a closed queue returns a key")
				}
			})
		}
		synctest.Wait()
		q.ShutDown()
		workers.Wait()
		l.Add(key("a"), watch.Urgent)
		if _, ok := q.Get(); ok {
			t.Error("a closed queue accepts a key")
		}
	})
}

// TestConcurrentUse has several workers and callers: no key has two workers at once, and each key
// is reconciled after the last time it was added.
func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const kinds, keys, adders, rounds = 3, 7, 5, 200
		q := newWorkQueue(4)
		var all []*kindQueue
		for range kinds {
			all = append(all, q.open(nil))
		}
		var mu sync.Mutex
		added, seen, working := map[string]int{}, map[string]int{}, map[string]bool{}
		name := func(l *kindQueue, k object.Key) string { return fmt.Sprint(slices.Index(all, l), "/", k.Name) }
		var workers, callers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for {
					next, ok := q.Get()
					if !ok {
						return
					}
					id := name(next.kind, next.key())
					mu.Lock()
					if working[id] {
						t.Errorf("%s has two workers at once", id)
					}
					working[id], seen[id] = true, added[id]
					mu.Unlock()
					<-time.After(time.Millisecond)
					mu.Lock()
					working[id] = false
					mu.Unlock()
					next.Done()
				}
			})
		}
		for a := range adders {
			callers.Go(func() {
				for i := range rounds {
					l, k := all[(a+i)%kinds], key(fmt.Sprint((a*i)%keys))
					mu.Lock()
					added[name(l, k)]++
					mu.Unlock()
					if i%5 == 0 {
						l.AddAfter(k, time.Duration(i)*time.Millisecond, watch.Background, nil)
					} else {
						l.Add(k, watch.Priority(i%3))
					}
					<-time.After(time.Duration(i%3) * time.Millisecond)
				}
			})
		}
		callers.Wait()
		<-time.After(time.Hour)
		q.ShutDown()
		workers.Wait()
		if diff := cmp.Diff(added, seen); diff != "" {
			t.Errorf("keys were added and not reconciled since (-added +reconciled):\n%s", diff)
		}
	})
}
