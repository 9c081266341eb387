package queue

import (
	"context"
	"time"
)

// A call of an external system may hang until its timeout, and tenants choose some of these systems. A reconcile that
// waits for one for long gives its worker to another key: it needs no worker, and the reservations of fairness.go are not
// enough if more namespaces than these have systems that hang.

// handOverAfter is how long a reconcile waits for an external system before it gives its worker away.
const handOverAfter = time.Second

// maxHandedOver is how many reconciles may wait for external systems beside the workers. They take memory and
// connections, so there is a limit.
func maxHandedOver(workers int) int { return 4 * workers }

// maxHandedOverOf is how many of these may be of one namespace. Further ones keep their workers, as if they were busy.
func maxHandedOverOf(workers int) int { return max(1, workers/4) }

type waitingKey struct{}

// Waiting says that the reconcile of a context waits for an external system until the returned function is called.
func Waiting(ctx context.Context) (end func()) {
	if begin, ok := ctx.Value(waitingKey{}).(func() func()); ok {
		return begin()
	}
	return func() {}
}

// WithWaiting returns a context in which Waiting calls begin, and the caller of Waiting its result.
func WithWaiting(ctx context.Context, begin func() (end func())) context.Context {
	return context.WithValue(ctx, waitingKey{}, begin)
}

// wait is one wait of a reconcile. The lock of the work queue guards it.
type wait struct{ ended, handedOver bool }

func (e *Engine) beginWaiting(w work) (end func()) {
	of := &wait{}
	timer := time.AfterFunc(handOverAfter, func() { w.handOver(of, func() { e.workers.Go(e.worker) }) })
	return func() {
		timer.Stop()
		w.takeBack(of)
	}
}

// handOver ends that a waiting reconcile counts as one of the workers, and begins another worker, within the limits. It
// holds the lock meanwhile, so that the reconcile, and with it its worker, cannot have ended.
func (w work) handOver(of *wait, begin func()) {
	q, namespace := w.kind.parent, w.item.countedAs
	q.mu.Lock()
	defer q.mu.Unlock()
	if of.ended || q.closed || q.handedOver >= q.maxHandedOver || q.handedOverOf[namespace] >= q.maxHandedOverOf {
		return
	}
	of.handedOver = true
	q.handedOver++
	q.handedOverOf[namespace]++
	q.free++
	begin()
}

// takeBack counts a reconcile as one of the workers again: it goes on at once, and the next worker that has nothing to do
// ends instead.
func (w work) takeBack(of *wait) {
	q, namespace := w.kind.parent, w.item.countedAs
	q.mu.Lock()
	defer q.mu.Unlock()
	of.ended = true
	if !of.handedOver {
		return
	}
	q.handedOver--
	if q.handedOverOf[namespace]--; q.handedOverOf[namespace] == 0 {
		delete(q.handedOverOf, namespace)
	}
	q.free--
	q.surplus++
	q.available.Signal()
}
