package membership

import (
	"context"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/fence"
	"github.com/espalier-dev/espalier/internal/shard"
)

// tenure is the work of this process on one slot. The lock of the membership guards what is not of
// fence.Tenure.
type tenure struct {
	fence.Tenure
	ctx      context.Context
	cancel   context.CancelFunc
	inFlight int
	closed   bool
	drained  chan struct{} // closed once it is closed and no reconcile is in flight
}

// close lets no more reconciles begin.
func (t *tenure) close() {
	t.closed = true
	if t.inFlight == 0 {
		close(t.drained)
	}
}

// awaitDrained returns once no reconcile of the tenures is in flight, or when the time is over.
func awaitDrained(tenures []*tenure, over <-chan time.Time) {
	for _, t := range tenures {
		select {
		case <-t.drained:
		case <-over:
			return
		}
	}
}

// Begin begins a reconcile of an object in a slot. The context that it returns ends with the tenure; the
// function is to be called at the end of the reconcile. It is nil if another replica reconciles the object.
func (m *Membership) Begin(ctx context.Context, slot shard.Slot) (context.Context, func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tenures[slot]
	if t == nil || t.Check() != nil {
		return ctx, nil
	}
	t.inFlight++
	ctx, cancel := context.WithCancel(fence.With(ctx, &t.Tenure))
	stop := context.AfterFunc(t.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
		m.mu.Lock()
		defer m.mu.Unlock()
		if t.inFlight--; t.inFlight == 0 && t.closed {
			close(t.drained)
		}
	}
}

// Holds reports whether this process reconciles the objects of a slot.
func (m *Membership) Holds(slot shard.Slot) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tenures[slot]
	return t != nil && t.Check() == nil
}

// held are the slots on which this process works.
func (m *Membership) held() (out shard.Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for slot := range m.tenures {
		out = out.With(slot)
	}
	return out
}
