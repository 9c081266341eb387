package queue

import (
	"fmt"
	"strings"
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

// getNames returns the names of the next keys, each done before the next.
func (k *kindQueue) getNames(n int) (names []string) {
	for range n {
		next, _ := k.get()
		names = append(names, next.key().Name)
		next.Done()
	}
	return names
}

func TestNamespacesTakeTurns(t *testing.T) {
	k := newKindQueue(nil, 1)
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
	if diff := cmp.Diff(want, k.getNames(7)); diff != "" {
		t.Errorf("a namespace with many keys delays another (-want +got):\n%s", diff)
	}
	add("busy", "busy-999", watch.Urgent) // moves to the other priority
	add("team", "team-2", watch.Urgent)
	if diff := cmp.Diff([]string{"busy-4", "busy-999", "team-2"}, k.getNames(3)); diff != "" {
		t.Errorf("the order of a raised priority (-want +got):\n%s", diff)
	}
	k.getNames(many - 6)
	if k.waiting[watch.Normal].len > 0 || len(k.waiting[watch.Normal].byName) != 0 || len(k.items) != 0 {
		t.Errorf("%d namespaces and %d keys are left", len(k.waiting[watch.Normal].byName), len(k.items))
	}
}

// TestATenantDoesNotDelayAnother measures how long the one object of a tenant waits behind ten
// thousand of another, with reconciles that take 100 ms.
func TestATenantDoesNotDelayAnother(t *testing.T) {
	const workers, objects, took = 16, 10_000, 100 * time.Millisecond
	delay := func(busy, team string, clusterScoped bool) (waited time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			c := &Controller{engine: &Engine{Config: Config{OnBehalfOf: func(_ schema.GroupVersionKind, key object.Key) string {
				tenant, _, _ := strings.Cut(key.Name, "-")
				return tenant
			}}}}
			c.queue = newKindQueue(c, workers)
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
			c.queue.Run(func(w work) {
				go func() {
					if strings.HasSuffix(w.key().Name, "-one") {
						waited = time.Since(w.request.since)
					}
					<-time.After(took)
					w.Done()
				}()
			})
			<-time.After(took / 2)
			enqueue(team, "one")
			<-time.After(time.Hour)
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
		for where, apart := range map[string]bool{"in one namespace": false, "in a namespace each": true} {
			t.Run(name+" "+where, func(t *testing.T) {
				l := newKindQueue(nil, 1)
				for _, p := range tc.waiting {
					for i := range 100 {
						k := key(fmt.Sprint(p, i))
						if apart {
							k.Namespace = fmt.Sprint(p)
						}
						l.Add(k, p)
					}
				}
				got := ""
				for range len(tc.want) {
					next, _ := l.get()
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

func TestLimits(t *testing.T) {
	for workers, want := range map[int]limits{
		1: {1, 1, 4, 1}, 2: {2, 1, 8, 1}, 3: {3, 2, 12, 1}, 4: {4, 3, 16, 1}, 16: {16, 12, 64, 4},
	} {
		if got := limitsFor(workers); got != want {
			t.Errorf("of %d workers: %+v, want %+v", workers, got, want)
		}
	}
}

// TestANamespaceLeavesWorkersToOthers has reconciles of one namespace occupy all workers that they may.
func TestANamespaceLeavesWorkersToOthers(t *testing.T) {
	k := newKindQueue(nil, 4)
	add := func(namespace, name string, p watch.Priority) {
		k.Add(object.Key{Kind: "Vpc", Namespace: namespace, Name: name}, p)
	}
	for i := range many {
		add("busy", fmt.Sprint(i), watch.Urgent)
	}
	var last work
	for n := range 3 {
		var ok bool
		if last, ok = k.get(); !ok {
			t.Fatalf("only %d reconciles of a namespace run", n)
		}
	}
	if _, ok := k.get(); ok {
		t.Fatal("one namespace has all workers")
	}
	add("team", "one", watch.Background)
	add("team", "two", watch.Background)
	team, ok := k.get()
	if !ok || team.key().Namespace != "team" {
		t.Fatal("another namespace gets no worker")
	}
	last.Done()
	if next, ok := k.get(); !ok || next.key().Namespace != "busy" {
		t.Fatal("the urgent key is not the next")
	}
	if _, ok := k.get(); ok {
		t.Fatal("there are more reconciles than workers")
	}
}
