package telemetry

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Layers measures how long values take from the status of one layer to that of the next:
// from when the answer to the write of an instance's status was there until the answer to
// the write of the status of the instance above that has taken it up. Both are this
// process's own; what another one wrote isn't measured. It is safe for concurrent use, and
// nil measures nothing.
type Layers struct {
	observe func(below, above schema.GroupKind, took time.Duration)

	mu sync.Mutex
	// wrote is when a status was first written that nobody above has taken up yet.
	wrote map[types.UID]time.Time
}

// mostLayers bounds the instances whose status nobody above has taken up yet.
const mostLayers = 100_000

// NewLayers tells of what it measures.
func NewLayers(observe func(below, above schema.GroupKind, took time.Duration)) *Layers {
	if observe == nil {
		return nil
	}
	return &Layers{observe: observe, wrote: map[types.UID]time.Time{}}
}

// Wrote notes that the status of an instance with one above it was written.
func (l *Layers) Wrote(instance types.UID, at time.Time) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, waits := l.wrote[instance]; !waits && len(l.wrote) < mostLayers {
		l.wrote[instance] = at
	}
}

// Taken notes that whoever is above an instance has seen it at a time, and returns when
// its status was first written since the last time before, if it was.
func (l *Layers) Taken(instance types.UID, seen time.Time) (since time.Time, was bool) {
	if l == nil {
		return time.Time{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	since, was = l.wrote[instance]
	if !was || since.After(seen) {
		return time.Time{}, false
	}
	delete(l.wrote, instance)
	return since, true
}

// Observe measures one value's way from one layer to the next.
func (l *Layers) Observe(below, above schema.GroupKind, took time.Duration) {
	if l != nil {
		l.observe(below, above, took)
	}
}

// Forget drops what is known of an instance that is gone.
func (l *Layers) Forget(instance types.UID) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.wrote, instance)
}
