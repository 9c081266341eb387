package instance

import (
	"sync"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/object"
)

// Readiness is how an instance was at the end of its last reconcile.
type Readiness struct {
	// By is the composer that it was composed by.
	By Composer
	// Ready reports whether it was ready, and Reason and Message why not.
	Ready           bool
	Reason, Message string
}

// ReadinessCache holds the readiness of the instances of a kind, for a rollout that waits for
// them. It is safe for concurrent use; nil caches nothing. After a restart it fills as the
// instances are reconciled.
type ReadinessCache struct {
	// Changed is called on each change; it must not block.
	Changed func()

	mu    sync.Mutex
	byKey map[object.Key]Readiness
}

// Of returns the readiness of an instance, if it is known.
func (c *ReadinessCache) Of(key object.Key) (Readiness, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	readiness, known := c.byKey[key]
	return readiness, known
}

func (c *ReadinessCache) note(key object.Key, current Readiness) {
	if c == nil {
		return
	}
	c.mu.Lock()
	if c.byKey == nil {
		c.byKey = map[object.Key]Readiness{}
	}
	previous, known := c.byKey[key]
	c.byKey[key] = current
	c.mu.Unlock()
	if !known || previous != current {
		c.Changed()
	}
}

func (c *ReadinessCache) forget(key object.Key) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byKey, key)
}

// The author's conditions count if they report whether the instance is ready, and the dialect's otherwise.
func (r *Reconciler) noteReadiness(s *subject, own, shown condition.Set) {
	ready, ok := shown.Get(v1alpha1.InstanceReady)
	if !ok {
		ready, _ = own.Get(v1alpha1.InstanceReady)
	}
	current := Readiness{By: s.composer, Ready: ready.Status == condition.True}
	if !current.Ready {
		current.Reason, current.Message = ready.Reason, ready.Message
	}
	r.Readiness.note(s.key, current)
}
