package queue

import (
	"time"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// kindQueue is the queue of one controller. The lock of the work queue guards all of it.
type kindQueue struct {
	parent     *workQueue
	controller *Controller
	// items are the keys of which there is something to remember.
	items map[object.Key]*item
	// waiting are those that wait to be reconciled, by priority, and rounds the kind's own elements in the rounds of
	// the work queue.
	waiting [classes]list[*item]
	rounds  [classes]element[*kindQueue]
	// skipped counts, for a priority with keys waiting, how many keys of other priorities were popped since its own
	// last.
	skipped [classes]int
	// depth, active and failing count the items that wait, that are being reconciled, and whose last reconcile failed.
	depth, active, failing int
	closed                 bool
	// drained is closed once the queue is closed and no reconcile of it is in flight.
	drained chan struct{}
}

// item is the state of a key.
type item struct {
	key object.Key
	// requested says that the key was requested, and request how: it waits in the queue, or for the end of its
	// reconcile.
	requested, active bool
	request           request
	element           element[*item]
	failures          int
	delayed           *delayedRequest
}

// request is how urgently a key was requested, and since when.
type request struct {
	priority watch.Priority
	since    time.Time
}

// merge joins two requests for one key: the more urgent priority and the earlier time count.
func (a request) merge(other request) request {
	if other.since.Before(a.since) {
		a.since = other.since
	}
	a.priority = max(a.priority, other.priority)
	return a
}

// open adds a queue for a controller.
func (q *workQueue) open(of *Controller) *kindQueue {
	l := &kindQueue{parent: q, controller: of, items: map[object.Key]*item{}, drained: make(chan struct{})}
	for class := range l.rounds {
		l.rounds[class].value = l
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.kinds[l] = struct{}{}
	return l
}

// Close drops the waiting keys and takes no more. The channel is closed once no reconcile is in flight.
func (l *kindQueue) Close() (over <-chan struct{}) {
	stopTimers(l.clear()) // without the lock: there may be ten thousand, and others have work to do
	return l.drained
}

// clear empties the queue at once, however much there is in it.
func (l *kindQueue) clear() (dropped map[object.Key]*item) {
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	for class := range l.rounds {
		l.rounds[class].unlink()
	}
	dropped, l.items = l.items, nil
	l.waiting, l.depth, l.failing = [classes]list[*item]{}, 0, 0
	l.markDrained()
	return dropped
}

func (l *kindQueue) markDrained() {
	if l.closed && l.active == 0 {
		close(l.drained)
		delete(l.parent.kinds, l)
	}
}

// Add asks for the key to be worked on.
func (l *kindQueue) Add(key object.Key, p watch.Priority) {
	l.parent.mu.Lock()
	defer l.parent.mu.Unlock()
	if !l.isClosed() {
		l.request(l.item(key), request{p, time.Now()})
	}
}

func (l *kindQueue) isClosed() bool { return l.closed || l.parent.closed }

// item finds what is remembered of a key, or begins to remember it.
func (l *kindQueue) item(key object.Key) *item {
	it, ok := l.items[key]
	if !ok {
		it = &item{key: key}
		it.element.value = it
		l.items[key] = it
	}
	return it
}

// forgetIdle forgets an item of which nothing is left to remember.
func (l *kindQueue) forgetIdle(it *item) {
	if !it.requested && !it.active && it.failures == 0 && it.delayed == nil {
		delete(l.items, it.key)
	}
}

// request notes that an item is requested. One that becomes more urgent moves; it never waits twice.
func (l *kindQueue) request(it *item, a request) {
	if it.requested {
		had := it.request
		it.request = had.merge(a)
		if it.active || it.request.priority == had.priority {
			return
		}
		l.remove(it, had.priority)
		l.push(it)
		return
	}
	it.requested, it.request = true, a
	if !it.active {
		l.push(it)
	}
}

// push lets an item wait in the priority of its request.
func (l *kindQueue) push(it *item) {
	if l.isClosed() {
		return
	}
	class := it.request.priority
	l.waiting[class].pushBack(&it.element)
	l.depth++
	if t := &l.rounds[class]; !t.isLinked() {
		l.parent.rounds[class].pushBack(t)
	}
	l.parent.available.Signal()
}

// remove takes an item out of a class.
func (l *kindQueue) remove(it *item, class watch.Priority) {
	it.element.unlink()
	l.depth--
	if l.waiting[class].empty() {
		l.rounds[class].unlink()
		l.skipped[class] = 0
	}
}
