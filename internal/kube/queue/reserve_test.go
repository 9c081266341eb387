package queue

import (
	"fmt"
	"testing"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// TestANamespaceWithoutReconcilesGetsAWorkerAtOnce has reconciles of one namespace occupy all workers that they may.
func TestANamespaceWithoutReconcilesGetsAWorkerAtOnce(t *testing.T) {
	const workers = 16
	q := newWorkQueue(workers)
	k := q.open(nil)
	add := func(namespace, name string, p watch.Priority) {
		k.Add(object.Key{Kind: "Vpc", Namespace: namespace, Name: name}, p)
	}
	next := func(want string) work {
		t.Helper()
		if waiting, _ := q.selectNext(); waiting == nil {
			t.Fatalf("no key may be reconciled, want one of %s", want)
		}
		w, _ := q.Get()
		if got := w.key().Namespace; got != want {
			t.Fatalf("got a key of %s, want one of %s", got, want)
		}
		return w
	}
	full := func() {
		t.Helper()
		if waiting, _ := q.selectNext(); waiting != nil {
			t.Fatal("a reserved worker is given away")
		}
	}
	for i := range many {
		add("busy", fmt.Sprint(i), watch.Urgent)
	}
	var last work
	for range workers - 4 - 2 { // a quarter is reserved for kinds, an eighth for namespaces
		last = next("busy")
	}
	full()
	add("team", "one", watch.Normal)
	add("team", "two", watch.Normal)
	team := next("team")
	full() // the second of the team has to wait, as those of the busy namespace
	add("other", "one", watch.Background)
	other := next("other")
	add("third", "one", watch.Urgent)
	full() // as many namespaces as reserved workers have one
	other.Done()
	next("third")
	team.Done()
	next("team")
	last.Done()
	full()
	if got := len(k.inFlight); got != 3 || k.inFlight["busy"] != workers-4-2-1 {
		t.Errorf("counted in flight: %v", k.inFlight)
	}
}

func TestReservedForNamespaces(t *testing.T) {
	for workers, want := range map[int]int{1: 0, 2: 0, 3: 0, 4: 0, 7: 0, 8: 1, 16: 2, 64: 8} {
		if got := reservedForNamespaces(workers); got != want {
			t.Errorf("of %d workers %d are reserved for namespaces, want %d", workers, got, want)
		}
	}
}
