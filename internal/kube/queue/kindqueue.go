package queue

import (
	"time"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/tracing"
)

// kindQueue is the queue of one controller. The lock of the work queue guards all of it.
type kindQueue struct {
	parent     *workQueue
	controller *Controller
	// items has the keys that wait, are being reconciled, are delayed or have failed.
	items map[object.Key]*item
	// waiting are those that wait to be reconciled, by priority, and rounds the elements of this queue in the lists
	// parent.rounds.
	waiting [priorities]namespaces
	rounds  [priorities]element[*kindQueue]
	// skipped counts, for a priority with keys waiting, how many keys of other priorities were popped since its own
	// last.
	skipped [priorities]int
	// depth, active and failing count the items that wait, that are being reconciled, and whose last reconcile failed.
	depth, active, failing int
	// inFlight counts the items that are being reconciled by their namespace.
	inFlight map[string]int
	closed   bool
	// drained is closed once the queue is closed and no reconcile of it is in flight.
	drained chan struct{}
}

// item is the state of a key.
type item struct {
	key object.Key
	// namespace is the namespace with whose keys this one is queued.
	namespace string
	// countedAs is the namespace of the reconcile in flight; another request may come with another one.
	countedAs string
	// requested says that the key was requested, and request how: it waits in the queue, or for the end of its
	// reconcile.
	requested, active bool
	request           request
	element           element[*item]
	failures          int
	delayed           *delayedRequest
}

// request is how urgently a key was requested, since when, and by which events, if they are traced.
type request struct {
	priority watch.Priority
	since    time.Time
	causes   *tracing.Causes
}

// merge joins two requests for one key: the more urgent priority and the earlier time count, and the causes of both.
func (a request) merge(other request) request {
	if other.since.Before(a.since) {
		a.since = other.since
	}
	a.priority, a.causes = max(a.priority, other.priority), a.causes.And(other.causes)
	return a
}

// open adds a queue for a controller.
func (q *workQueue) open(of *Controller) *kindQueue {
	k := &kindQueue{parent: q, controller: of, items: map[object.Key]*item{}, inFlight: map[string]int{}, drained: make(chan struct{})}
	for priority := range k.rounds {
		k.rounds[priority].value = k
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.kinds[k] = struct{}{}
	return k
}

// Close drops the waiting keys, and ignores keys that are added later. The channel is closed once no reconcile is in flight.
func (k *kindQueue) Close() (drained <-chan struct{}) {
	stopTimers(k.clear()) // without the lock: there may be ten thousand, and others have work to do
	return k.drained
}

// clear empties the queue at once, however much there is in it.
func (k *kindQueue) clear() (dropped map[object.Key]*item) {
	k.parent.mu.Lock()
	defer k.parent.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	for priority := range k.rounds {
		k.rounds[priority].unlink()
	}
	dropped, k.items = k.items, nil
	k.waiting, k.depth, k.failing = [priorities]namespaces{}, 0, 0
	k.markDrained()
	return dropped
}

func (k *kindQueue) markDrained() {
	if k.closed && k.active == 0 {
		close(k.drained)
		delete(k.parent.kinds, k)
	}
}

// AddFor requests a reconcile of the key, which is queued with those of a namespace. A key that waits already stays where
// it is.
func (k *kindQueue) AddFor(namespace string, key object.Key, p watch.Priority, causes *tracing.Causes) {
	k.parent.mu.Lock()
	defer k.parent.mu.Unlock()
	if k.isClosed() {
		return
	}
	it := k.item(key)
	if !it.requested {
		it.namespace = namespace
	}
	k.request(it, request{p, time.Now(), causes})
}

func (k *kindQueue) isClosed() bool { return k.closed || k.parent.closed }

// item returns the item of a key, and creates it if there is none.
func (k *kindQueue) item(key object.Key) *item {
	it, ok := k.items[key]
	if !ok {
		it = &item{key: key, namespace: key.Namespace}
		it.element.value = it
		k.items[key] = it
	}
	return it
}

// forgetIdle drops an item that has no state left.
func (k *kindQueue) forgetIdle(it *item) {
	if !it.requested && !it.active && it.failures == 0 && it.delayed == nil {
		delete(k.items, it.key)
	}
}

// request requests an item. One that waits already, and becomes more urgent, moves to the other priority.
func (k *kindQueue) request(it *item, a request) {
	if it.requested {
		had := it.request
		it.request = had.merge(a)
		if it.active || it.request.priority == had.priority {
			return
		}
		k.remove(it, had.priority)
		k.push(it)
		return
	}
	it.requested, it.request = true, a
	if !it.active {
		k.push(it)
	}
}

// push adds an item to the waiting ones of its priority.
func (k *kindQueue) push(it *item) {
	if k.isClosed() {
		return
	}
	priority := it.request.priority
	k.waiting[priority].push(it)
	k.depth++
	if round := &k.rounds[priority]; !round.isLinked() {
		k.parent.rounds[priority].pushBack(round)
	}
	k.parent.available.Signal()
}

// remove removes an item from the waiting ones of a priority.
func (k *kindQueue) remove(it *item, priority watch.Priority) {
	k.waiting[priority].remove(it)
	k.removed(priority)
}

// removed records that an item does not wait in a priority any more.
func (k *kindQueue) removed(priority watch.Priority) {
	k.depth--
	if k.waiting[priority].empty() {
		k.rounds[priority].unlink()
		k.skipped[priority] = 0
	}
}
