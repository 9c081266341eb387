package queue

import (
	"sync"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// classes is how many priorities there are, and each is a class of work.
const classes = watch.Urgent + 1

// workQueue gives workers keys, from one queue for each controller. Equal keys coalesce, one key is never worked on twice
// at a time, and none is dropped while its queue is open. Which key goes first is decided in fairness.go. It is safe for
// concurrent use.
type workQueue struct {
	mu sync.Mutex
	// available is signalled for each key that begins to wait. The end of a reconcile needs no signal: it allows at most
	// one more, and the worker that ended it is the next to ask.
	available *sync.Cond
	kinds     map[*kindQueue]struct{}
	// rounds are, for each priority, the kinds that have keys waiting in it, in the order of their rounds.
	rounds [classes]list[*kindQueue]
	// popped counts the keys that were popped.
	popped uint64
	// free is how many workers are idle, and reserved how many of them are kept for kinds without a reconcile in
	// flight.
	free, reserved int
	closed         bool
}

// work is a key that a worker got.
type work struct {
	kind *kindQueue
	item *item
	// request is how it was requested.
	request request
}

func (t work) key() object.Key { return t.item.key }

func newWorkQueue(workers int) *workQueue {
	q := &workQueue{kinds: map[*kindQueue]struct{}{}, free: workers, reserved: reservedWorkers(workers)}
	q.available = sync.NewCond(&q.mu)
	return q
}

// Get waits for a key that may be worked on now; false once the queue is shut down. Each worker calls Done before it
// calls Get again.
func (q *workQueue) Get() (work, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		if l, class := q.selectNext(); l != nil {
			return l.pop(class), true
		}
		q.available.Wait()
	}
	return work{}, false
}

// Done says that the work on a key is over.
func (t work) Done() {
	l, it := t.kind, t.item
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	l.parent.free++
	l.active--
	it.active = false
	if it.requested {
		l.push(it)
	} else {
		l.forgetIdle(it)
	}
	l.markDrained()
}

// ShutDown ends the queue: nothing is handed out any more, nor taken.
func (q *workQueue) ShutDown() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for l := range q.kinds {
		stopTimers(l.items)
	}
	q.available.Broadcast()
}
