package telemetry

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// StatusPropagation measures how long values take from the status of an instance to the
// status of the instance above it: from the response to the write of the lower status to the
// response to the write of the upper status that was computed from it. Only writes of this
// process are measured. It is safe for concurrent use, and nil measures nothing.
type StatusPropagation struct {
	observe func(below, above schema.GroupKind, took time.Duration)

	mu sync.Mutex
	// unread holds, by instance, the time of the first status write that the instance above
	// has not read yet.
	unread map[types.UID]time.Time
}

// maxUnread bounds the entries of unread; writes beyond it are not measured.
const maxUnread = 100_000

// NewStatusPropagation passes each measurement to observe; without one it returns nil.
func NewStatusPropagation(observe func(below, above schema.GroupKind, took time.Duration)) *StatusPropagation {
	if observe == nil {
		return nil
	}
	return &StatusPropagation{observe: observe, unread: map[types.UID]time.Time{}}
}

// RecordWrite records that the status of an instance with another one above it was written.
func (l *StatusPropagation) RecordWrite(instance types.UID, at time.Time) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, pending := l.unread[instance]; !pending && len(l.unread) < maxUnread {
		l.unread[instance] = at
	}
}

// RecordRead records that the instance above read this one at the given time. It returns when the status was first
// written after the previous read, and false if it was not.
func (l *StatusPropagation) RecordRead(instance types.UID, at time.Time) (since time.Time, written bool) {
	if l == nil {
		return time.Time{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	since, written = l.unread[instance]
	if !written || since.After(at) {
		return time.Time{}, false
	}
	delete(l.unread, instance)
	return since, true
}

// Observe passes on one measurement.
func (l *StatusPropagation) Observe(below, above schema.GroupKind, took time.Duration) {
	if l != nil {
		l.observe(below, above, took)
	}
}

// Forget drops the record of an instance that is gone.
func (l *StatusPropagation) Forget(instance types.UID) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.unread, instance)
}
