package queue

import (
	"fmt"
	"testing"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// BenchmarkTurn measures an event's way through the queue: its key is added,
// returned by Get and done, beside many other kinds, each with keys waiting, while
// all workers except one have a reconcile in flight.
func BenchmarkTurn(b *testing.B) {
	const workers, waiting, names = 64, 50, 1000
	for _, kinds := range []int{0, 200, 5000} {
		b.Run(fmt.Sprint("kinds=", kinds), func(b *testing.B) {
			q := newWorkQueue(workers)
			for range kinds {
				l := q.open(nil)
				for n := range waiting {
					l.Add(key(fmt.Sprint(n)), watch.Background)
				}
			}
			for range min(kinds, workers-1) {
				q.Get()
			}
			l := q.open(nil)
			keys := make([]object.Key, names)
			for n := range keys {
				keys[n] = key(fmt.Sprint(n))
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				l.Add(keys[n%names], watch.Priority(n%int(priorities)))
				next, _ := q.Get()
				next.Done()
			}
		})
	}
}

// BenchmarkFlood measures, for each of ten thousand keys, what a first list and
// its reconcile take.
func BenchmarkFlood(b *testing.B) {
	const names = 10_000
	keys := make([]object.Key, names)
	for n := range keys {
		keys[n] = key(fmt.Sprint(n))
	}
	b.ReportAllocs()
	for b.Loop() {
		q := newWorkQueue(8)
		l := q.open(nil)
		for _, k := range keys {
			l.Add(k, watch.Background)
		}
		for range keys {
			next, _ := q.Get()
			next.Done()
		}
	}
}
