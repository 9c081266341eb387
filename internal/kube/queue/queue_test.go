package queue

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

func key(name string) object.Key { return object.Key{Kind: "Vpc", Namespace: "prod", Name: name} }

// get takes the next key, if one may be reconciled.
func (k *kindQueue) get() (work, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.next()
}

// awaiting returns a function that waits for the next reconcile, of a queue with one worker.
func (k *kindQueue) awaiting() (await func() work) {
	started := make(chan work, 1)
	k.Run(func(w work) { started <- w })
	return func() work { return <-started }
}

// drain returns the names of all keys in the order of their reconciles, each done before the next.
func (k *kindQueue) drain() (out []string) {
	for next, ok := k.get(); ok; next, ok = k.get() {
		out = append(out, next.key().Name)
		next.Done()
	}
	return out
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
			l := newKindQueue(nil, 1)
			for _, a := range tc.adds {
				l.Add(key(a.name), a.p)
			}
			if diff := cmp.Diff(tc.want, l.drain()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestAKeyHasOneWorkerAtATime(t *testing.T) {
	l := newKindQueue(nil, 2)
	l.Add(key("a"), watch.Normal)
	next, _ := l.get()
	l.Add(next.key(), watch.Background)
	l.Add(next.key(), watch.Urgent)
	l.Add(key("b"), watch.Normal)
	if n := l.depth(); n != 1 {
		t.Fatalf("%d keys wait; a key with a worker must not be returned again", n)
	}
	next.Done()
	if diff := cmp.Diff([]string{"a", "b"}, l.drain()); diff != "" {
		t.Errorf("a key that was added meanwhile is repeated, in its highest priority (-want +got):\n%s", diff)
	}
}

// TestAKeyHasOnePlace adds a key in rising priorities before a worker is free, again and again.
func TestAKeyHasOnePlace(t *testing.T) {
	l := newKindQueue(nil, 1)
	for range 1000 {
		for p := range priorities {
			l.Add(key("a"), p)
		}
		next, _ := l.get()
		if p := next.request.priority; p != watch.Urgent {
			t.Fatalf("the key is returned in priority %d", p)
		}
		next.Done()
		for p := range priorities {
			if len(l.waiting[p].byName) > 0 || l.waiting[p].turns.Len() > 0 || l.waiting[p].len > 0 {
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
			next, _ := l.get()
			<-time.After(time.Minute)
			add()
			next.Done()
		},
	}
	for name, play := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newKindQueue(nil, 1)
				var began time.Time
				play(l, func() {
					began = time.Now()
					for _, p := range []watch.Priority{watch.Background, watch.Normal, watch.Background} {
						l.Add(key("a"), p)
						<-time.After(time.Second)
					}
				})
				next, _ := l.get()
				if got := next.request; got.priority != watch.Normal || !got.since.Equal(began) {
					t.Errorf("want one of normal priority since %v, got %v", began, got)
				}
			})
		})
	}
}

// TestAReconcileIsNotRepeatedForItsOwnWrites has events and answers of writes arrive during a reconcile, in an order.
func TestAReconcileIsNotRepeatedForItsOwnWrites(t *testing.T) {
	own, another := watch.Write{UID: "a", Revision: 5}, watch.Write{UID: "a", Revision: 4}
	cases := map[string]struct {
		reason  string
		arrive  func(event, answer func(watch.Write))
		repeats bool
	}{
		"The event comes first": {
			reason: "the answer says whose write it shows",
			arrive: func(event, answer func(watch.Write)) { event(own); answer(own) },
		},
		"The answer comes first": {
			reason: "a cache may route the event late",
			arrive: func(event, answer func(watch.Write)) { answer(own); event(own); event(own) },
		},
		"A deletion": {
			reason: "its answer has no revision",
			arrive: func(event, answer func(watch.Write)) {
				event(watch.Write{UID: "b", Revision: watch.Gone})
				answer(watch.Write{UID: "b", Revision: watch.Gone})
			},
		},
		"Another client writes before": {
			reason: "the reconcile may not have seen it", repeats: true,
			arrive: func(event, answer func(watch.Write)) { event(another); event(own); answer(own) },
		},
		"Another client writes after the answer": {
			reason: "the reconcile may not have seen it", repeats: true,
			arrive: func(event, answer func(watch.Write)) { event(own); answer(own); event(another) },
		},
		"A list shows the write": {
			reason: "it doesn't show what others wrote before", repeats: true,
			arrive: func(event, answer func(watch.Write)) { event(own); event(watch.Write{}); answer(own) },
		},
		"There is no answer": {
			reason: "whoever wrote it, the reconcile may not know", repeats: true,
			arrive: func(event, _ func(watch.Write)) { event(own) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newKindQueue(nil, 1)
			event := func(w watch.Write) { l.AddFor("prod", key("a"), watch.Cause{Priority: watch.Normal, Write: w}) }
			l.Add(key("a"), watch.Normal)
			next, _ := l.get()
			tc.arrive(event, func(w watch.Write) { l.Wrote(key("a"), w) })
			next.Done()
			if repeats := len(l.drain()) > 0; repeats != tc.repeats {
				t.Errorf("%s: it is repeated: %t", tc.reason, repeats)
			}
			l.Wrote(key("a"), own) // by nobody: no reconcile is in flight
			if event(own); len(l.drain()) == 0 {
				t.Error("a later event requests no reconcile")
			}
			if len(l.items) > 0 {
				t.Errorf("left: %v", l.items)
			}
		})
	}
}

func TestClosingAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newKindQueue(nil, 2)
		l.Add(key("a"), watch.Normal)
		l.Add(key("b"), watch.Normal)
		l.AddAfter(key("c"), time.Second, watch.Normal, nil)
		next, _ := l.get()
		end := next.Calling()
		closed := l.Close()
		isOpen := func() bool {
			select {
			case <-closed:
				return false
			default:
				return true
			}
		}
		if !isOpen() {
			t.Error("the queue is drained while a reconcile waits for an external system")
		}
		end()
		l.Add(next.key(), watch.Urgent) // too late
		l.Add(key("d"), watch.Normal)
		l.AddAfter(key("e"), time.Second, watch.Normal, nil)
		next.AddRateLimited(0)
		if !isOpen() {
			t.Error("the queue is drained with a reconcile in flight")
		}
		next.Done()
		<-closed
		<-time.After(time.Hour)
		if left := l.drain(); len(left) > 0 {
			t.Errorf("keys after the queue was closed: %q", left)
		}
		<-l.Close() // may be called again
	})
}

// TestConcurrentUse has several callers: no key is reconciled twice at once, each is reconciled after the last time it was added,
// and there are no more reconciles at a time than workers.
func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, adders, rounds, workers = 20, 5, 200, 4
		l := newKindQueue(nil, workers)
		var mu sync.Mutex
		added, seen, working := map[string]int{}, map[string]int{}, map[string]bool{}
		var running sync.WaitGroup
		l.Run(func(w work) {
			running.Go(func() {
				defer w.Done()
				name := w.key().Name
				mu.Lock()
				if working[name] = !working[name]; !working[name] {
					t.Errorf("%s is reconciled twice at once", name)
				}
				seen[name] = added[name]
				busy := 0
				for _, is := range working {
					if is {
						busy++
					}
				}
				if busy > workers {
					t.Errorf("%d reconciles run at a time", busy)
				}
				mu.Unlock()
				<-time.After(time.Millisecond)
				mu.Lock()
				working[name] = false
				mu.Unlock()
			})
		})
		var callers sync.WaitGroup
		for a := range adders {
			callers.Go(func() {
				for i := range rounds {
					n := (a * i) % keys
					k := object.Key{Kind: "Vpc", Namespace: fmt.Sprint(n % 3), Name: fmt.Sprint(n)}
					mu.Lock()
					added[k.Name]++
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
		running.Wait()
		if diff := cmp.Diff(added, seen); diff != "" {
			t.Errorf("keys were added and not reconciled since (-added +reconciled):\n%s", diff)
		}
		if len(l.items) > 0 || l.running.total != 0 || len(l.running.of) > 0 {
			t.Errorf("%d keys have state, %v are counted as running", len(l.items), l.running)
		}
	})
}
