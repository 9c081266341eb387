package queue

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// many is more keys than a test gets.
const many = 1000

// openWithMany opens a kind with many keys in a priority.
func openWithMany(q *workQueue, name string, p watch.Priority) *kindQueue {
	l := q.open(nil)
	for i := range many {
		l.Add(key(fmt.Sprint(name, "-", i)), p)
	}
	return l
}

// getNames returns the names of the next keys, each done before the next.
func getNames(q *workQueue, n int) (names []string) {
	for range n {
		next, _ := q.Get()
		names = append(names, next.key().Name)
		next.Done()
	}
	return names
}

func TestKindsTakeTurnsWithinAPriority(t *testing.T) {
	q := newWorkQueue(1)
	openWithMany(q, "many", watch.Normal)
	single := q.open(nil)
	single.Add(key("single"), watch.Normal)
	single.Add(key("second"), watch.Normal)
	want := []string{"many-0", "single", "many-1", "second"}
	if diff := cmp.Diff(want, getNames(q, 4)); diff != "" {
		t.Errorf("a kind with many keys delays another (-want +got):\n%s", diff)
	}
}

func TestNamespacesTakeTurnsWithinAKind(t *testing.T) {
	q := newWorkQueue(1)
	k := q.open(nil)
	add := func(namespace, name string, p watch.Priority) {
		k.Add(object.Key{Kind: "Vpc", Namespace: namespace, Name: name}, p)
	}
	for i := range many {
		add("busy", fmt.Sprint("busy-", i), watch.Normal)
	}
	add("team", "team-0", watch.Normal)
	add("team", "team-1", watch.Normal)
	add("", "cluster-0", watch.Normal)
	want := []string{"busy-0", "team-0", "cluster-0", "busy-1", "team-1", "busy-2", "busy-3"}
	if diff := cmp.Diff(want, getNames(q, 7)); diff != "" {
		t.Errorf("a namespace with many keys delays another (-want +got):\n%s", diff)
	}
	add("busy", "busy-999", watch.Urgent) // moves to the other priority
	add("team", "team-2", watch.Urgent)
	if diff := cmp.Diff([]string{"busy-4", "busy-999", "team-2"}, getNames(q, 3)); diff != "" {
		t.Errorf("the order of a raised priority (-want +got):\n%s", diff)
	}
	getNames(q, many-6)
	if !k.waiting[watch.Normal].empty() || len(k.waiting[watch.Normal].byName) != 0 || len(k.items) != 0 {
		t.Errorf("%d namespaces and %d keys are left", len(k.waiting[watch.Normal].byName), len(k.items))
	}
}

// TestATenantDoesNotDelayAnother measures how long the one object of a tenant waits behind ten
// thousand of another, with reconciles that take 100 ms.
func TestATenantDoesNotDelayAnother(t *testing.T) {
	const workers, objects, took = 16, 10_000, 100 * time.Millisecond
	delay := func(busy, team string, clusterScoped bool) (waited time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			q := newWorkQueue(workers)
			c := &Controller{engine: &Engine{Config: Config{OnBehalfOf: func(_ schema.GroupVersionKind, key object.Key) string {
				tenant, _, _ := strings.Cut(key.Name, "-")
				return tenant
			}}}}
			c.queue = q.open(c)
			enqueue := func(tenant, name string) {
				key := object.Key{Kind: "Vpc", Namespace: tenant, Name: tenant + "-" + name}
				if clusterScoped {
					key.Namespace = ""
				}
				c.Enqueue(key, watch.Normal)
			}
			for i := range objects {
				enqueue(busy, fmt.Sprint(i))
			}
			var running sync.WaitGroup
			for range workers {
				running.Go(func() {
					for {
						w, ok := q.Get()
						if !ok {
							return
						}
						if strings.HasSuffix(w.key().Name, "-one") {
							waited = time.Since(w.request.since)
						}
						<-time.After(took)
						w.Done()
					}
				})
			}
			<-time.After(took / 2)
			enqueue(team, "one")
			<-time.After(time.Hour)
			q.ShutDown()
			running.Wait()
		})
		return waited
	}
	for reason, clusterScoped := range map[string]bool{"instances": false, "composites of claims": true} {
		same, another := delay("busy", "busy", clusterScoped), delay("busy", "team", clusterScoped)
		t.Logf("%s: behind %d objects of its own namespace it waits %s, behind those of another %s", reason, objects, same, another)
		if another > took || same < time.Minute {
			t.Errorf("%s: want at most %s behind those of another namespace", reason, took)
		}
	}
}

func TestPriorityAppliesAcrossKinds(t *testing.T) {
	q := newWorkQueue(1)
	for i := range 100 {
		openWithMany(q, fmt.Sprint("resync-", i), watch.Background)
	}
	getNames(q, 2)
	q.open(nil).Add(key("edit"), watch.Urgent)
	if diff := cmp.Diff([]string{"edit"}, getNames(q, 1)); diff != "" {
		t.Errorf("resyncs come before a user's change (-want +got):\n%s", diff)
	}
}

func TestLowerPrioritiesMakeProgress(t *testing.T) {
	names := map[watch.Priority]string{watch.Urgent: "U", watch.Normal: "n", watch.Background: "b"}
	cases := map[string]struct {
		waiting []watch.Priority
		want    string
	}{
		"One key in four of the next priority, one in sixteen of the lowest": {
			waiting: []watch.Priority{watch.Urgent, watch.Normal, watch.Background},
			want:    "UUUnUUUnUUUnUUUbUUUnUUUn",
		},
		"Of two priorities one key in four of the lower": {
			waiting: []watch.Priority{watch.Urgent, watch.Background},
			want:    "UUUbUUUbUUUbUUUbUUUbUUUb",
		},
		"Two priorities without an urgent key": {
			waiting: []watch.Priority{watch.Normal, watch.Background},
			want:    "nnnbnnnbnnnbnnnbnnnbnnnb",
		},
		"A single priority": {
			waiting: []watch.Priority{watch.Background},
			want:    "bbbbbbbbbbbbbbbbbbbbbbbb",
		},
	}
	for name, tc := range cases {
		for where, apart := range map[string]bool{"in one kind": false, "in a kind each": true} {
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

// TestAPriorityIsNotAlwaysSkipped has two kinds with a worker each, whose reconciles take equally
// long: one of them always has its maximum of workers when a lower priority has its turn.
func TestAPriorityIsNotAlwaysSkipped(t *testing.T) {
	q := newWorkQueue(2)
	for _, name := range []string{"a", "b"} {
		l := q.open(nil)
		for p := range priorities {
			for i := range many {
				l.Add(key(fmt.Sprint(name, p, "-", i)), p)
			}
		}
	}
	skipped := map[*kindQueue]*[priorities]int{}
	for l := range q.kinds {
		skipped[l] = &[priorities]int{}
	}
	before, _ := q.Get()
	for range many {
		next, _ := q.Get()
		of := skipped[next.kind]
		for p := range of {
			of[p]++
		}
		of[next.request.priority] = 0
		if most := max(of[0], of[1], of[2]); most > lowestEvery+1 {
			t.Fatalf("keys of a kind since the last one of each priority: %v", of)
		}
		before.Done()
		before = next
	}
}

func TestReservedWorkers(t *testing.T) {
	for workers, want := range map[int]int{1: 0, 2: 1, 3: 1, 4: 1, 7: 1, 8: 2, 64: 16} {
		if got := reservedWorkers(workers); got != want {
			t.Errorf("of %d workers %d are reserved, want %d", workers, got, want)
		}
	}
}

func TestOneKindCannotHaveAllWorkers(t *testing.T) {
	q := newWorkQueue(4)
	busy, other := openWithMany(q, "busy", watch.Urgent), q.open(nil)
	var active []work
	for range 3 {
		next, _ := q.Get()
		active = append(active, next)
	}
	if l, _ := q.selectNext(); l != nil {
		t.Fatal("the last worker is not reserved")
	}
	other.Add(key("other"), watch.Background)
	next, _ := q.Get()
	if next.kind != other {
		t.Fatal("a kind without a reconcile in flight gets no worker")
	}
	other.Add(key("second"), watch.Background)
	active[0].Done()
	if l, _ := q.selectNext(); l != nil {
		t.Fatal("the last worker is not reserved when all kinds have one")
	}
	next.Done()
	if next, _ = q.Get(); next.kind != busy {
		t.Fatal("a kind that was skipped lost its turn")
	}
	if next, _ = q.Get(); next.kind != other {
		t.Fatal("a kind without a reconcile in flight gets no worker")
	}
}
