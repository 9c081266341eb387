package queue

import (
	"sync"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// priorities is the number of priorities.
const priorities = watch.Urgent + 1

// workQueue gives workers keys, from one queue for each controller. Equal keys coalesce, one key is never worked on twice
// at a time, and none is dropped while its queue is open. Which key goes first is decided in fairness.go. It is safe for
// concurrent use.
type workQueue struct {
	mu sync.Mutex
	// available is signalled for each key that begins to wait. The end of a reconcile allows one more, for
	// which the worker that ended it is the next to ask, and is signalled if it is the last of its namespace, which allows
	// another.
	available *sync.Cond
	kinds     map[*kindQueue]struct{}
	// rounds are, for each priority, the kinds that have keys waiting in it, in the order of their rounds.
	rounds [priorities]list[*kindQueue]
	// popped counts the keys that were popped.
	popped uint64
	// free is how many workers are idle, and reserved how many of them are kept for kinds without a reconcile in
	// flight.
	free, reserved int
	// reservedForNamespaces is how many more are kept for namespaces of which the kind has no reconcile in flight.
	reservedForNamespaces int
	// handedOver counts the reconciles that wait for external systems and have given their workers away, handedOverOf those
	// of each namespace. surplus is how many workers there are too many, since such reconciles go on: so many end.
	handedOver, maxHandedOver int
	handedOverOf              map[string]int
	maxHandedOverOf           int
	surplus                   int
	closed                    bool
}

// work is a key that a worker got.
type work struct {
	kind *kindQueue
	item *item
	// request is how it was requested.
	request request
}

func (w work) key() object.Key { return w.item.key }

func newWorkQueue(workers int) *workQueue {
	q := &workQueue{
		kinds: map[*kindQueue]struct{}{}, free: workers, reserved: reservedWorkers(workers), reservedForNamespaces: reservedForNamespaces(workers),
		maxHandedOver: maxHandedOver(workers), handedOverOf: map[string]int{}, maxHandedOverOf: maxHandedOverOf(workers),
	}
	q.available = sync.NewCond(&q.mu)
	return q
}

// Get waits for a key that may be worked on now; false if the worker has to end, since there is one too many, or the queue
// is shut down. Each worker calls Done before it calls Get again.
func (q *workQueue) Get() (work, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		if q.surplus > 0 {
			q.surplus--
			q.available.Signal() // what this worker was to do is for another one
			return work{}, false
		}
		if k, priority := q.selectNext(); k != nil {
			return k.pop(priority), true
		}
		q.available.Wait()
	}
	return work{}, false
}

// Done ends the reconcile of a key. A key that was requested meanwhile waits again.
func (w work) Done() {
	k, it := w.kind, w.item
	k.parent.mu.Lock()
	defer k.parent.mu.Unlock()
	k.parent.free++
	k.active--
	if k.inFlight[it.countedAs]--; k.inFlight[it.countedAs] == 0 {
		delete(k.inFlight, it.countedAs)
		k.parent.available.Signal() // a key of the namespace may take a reserved worker, beside the one that this worker takes
	}
	it.active = false
	if it.requested {
		k.push(it)
	} else {
		k.forgetIdle(it)
	}
	k.markDrained()
}

// ShutDown ends the queue: Get returns false, and keys that are added are ignored.
func (q *workQueue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for k := range q.kinds {
		stopTimers(k.items)
	}
	q.available.Broadcast()
}
