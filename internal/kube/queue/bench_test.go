package queue

import (
	"fmt"
	"testing"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

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
		l := newKindQueue(nil, 8)
		for _, k := range keys {
			l.Add(k, watch.Background)
		}
		for range keys {
			next, _ := l.get()
			next.Done()
		}
	}
}
