package queue

import (
	"slices"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// priorities is the number of priorities.
const priorities = watch.Urgent + 1

// The most urgent work goes first: a user waits for it. Lower priorities must progress all the same while there is always
// urgent work. One key in four hardly delays a user and finishes ten thousand instances in good time; one in sixteen is of
// the lowest priority.
const (
	lowerEvery  = 4
	lowestEvery = 16
)

// kindQueue has the keys of one controller. Equal keys coalesce, one key is never reconciled twice at a time, and none is
// dropped while the queue is open. Of one priority, namespaces take turns: one with many keys delays another by one key at a
// time. It is safe for concurrent use.
type kindQueue struct {
	controller *Controller
	limits     limits
	// start starts the reconcile of a key; nil before the engine runs.
	start func(work)

	mu sync.Mutex
	// items has the keys that wait, are being reconciled, are delayed or have failed; waiting those that wait.
	items   map[object.Key]*item
	waiting [priorities]namespaces
	// running counts the reconciles by their namespace, and calls those of them that wait for an external system.
	running, calls counts
	// failing counts the items whose last reconcile failed, and started the reconciles.
	failing int
	started uint64
	closed  bool
	// drained is closed once the queue is closed and no reconcile of it is in flight.
	drained chan struct{}
}

// limits bound the concurrent reconciles of a kind, without those that wait for an external system, which have limits of
// their own: they take memory and connections. No namespace gets all of them: reconciles that hang delay those of the same
// namespace only.
type limits struct{ running, runningOf, calls, callsOf int }

func limitsFor(workers int) limits {
	return limits{running: workers, runningOf: max(1, workers-max(1, workers/4)), calls: 4 * workers, callsOf: max(1, workers/4)}
}

// counts are numbers of reconciles, by their namespace.
type counts struct {
	total int
	of    map[string]int
}

func (c *counts) add(namespace string, n int) {
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.total += n
	if c.of[namespace] += n; c.of[namespace] == 0 {
		delete(c.of, namespace)
	}
}

// item is the state of a key.
type item struct {
	key object.Key
	// namespace is the namespace with whose keys this one is queued.
	namespace string
	// requested says that the key was requested, and request how: it waits in the queue, or for the end of its
	// reconcile.
	requested, active bool
	request           request
	// wrote contains the writes of the reconcile in flight.
	wrote    map[watch.Write]struct{}
	failures int
	delayed  *delayedRequest
}

// request is how urgently a key was requested, since when, and by which events, if they are traced.
type request struct {
	priority watch.Priority
	since    time.Time
	causes   *tracing.Causes
	// writes are the changes that caused a request during a reconcile of the key. The request is dropped if that reconcile has
	// made all of them; one without writes is never dropped.
	writes []watch.Write
}

// merge joins two requests for one key: the more urgent priority and the earlier time count, and the causes of both.
func (a request) merge(other request) request {
	if other.since.Before(a.since) {
		a.since = other.since
	}
	a.priority, a.causes = max(a.priority, other.priority), a.causes.And(other.causes)
	if len(a.writes) == 0 || len(other.writes) == 0 {
		a.writes = nil
	} else {
		a.writes = append(a.writes, other.writes...)
	}
	return a
}

// work is a key that is being reconciled.
type work struct {
	queue *kindQueue
	item  *item
	// namespace is what it counts for, and request how it was requested; a later request may differ.
	namespace string
	request   request
}

func (w work) key() object.Key { return w.item.key }

func newKindQueue(of *Controller, workers int) *kindQueue {
	return &kindQueue{controller: of, limits: limitsFor(workers), items: map[object.Key]*item{}, drained: make(chan struct{})}
}

// Run starts the reconciles of keys, each by a call of start, which must not block.
func (k *kindQueue) Run(start func(work)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.start = start
	k.dispatch()
}

// dispatch starts what may run now. The lock is held.
func (k *kindQueue) dispatch() {
	if k.start == nil {
		return
	}
	for w, ok := k.next(); ok; w, ok = k.next() {
		k.start(w)
	}
}

// next takes the key that is next, if another one may be reconciled now. The lock is held.
func (k *kindQueue) next() (work, bool) {
	if k.closed || k.running.total >= k.limits.running {
		return work{}, false
	}
	skip := 0 // how many priorities to skip, if a lower one has a key
	switch n := k.started + 1; {
	case n%lowestEvery == 0:
		skip = int(priorities)
	case n%lowerEvery == 0:
		skip = 1
	}
	mayRun := func(namespace string) bool { return k.running.of[namespace] < k.limits.runningOf }
	var it *item
	for p := int(watch.Urgent); p >= 0 && (it == nil || skip >= 0); p-- {
		if first := k.waiting[p].first(mayRun); first != nil {
			it = first
			skip--
		}
	}
	if it == nil {
		return work{}, false
	}
	k.waiting[it.request.priority].take(it)
	it.requested, it.active = false, true
	k.running.add(it.namespace, 1)
	k.started++
	return work{k, it, it.namespace, it.request}, true
}

// Done ends the reconcile of a key. A key that was requested meanwhile waits again.
func (w work) Done() {
	k, it := w.queue, w.item
	k.mu.Lock()
	defer k.mu.Unlock()
	k.running.add(w.namespace, -1)
	it.active, it.wrote, it.request.writes = false, nil, nil
	if it.requested {
		k.push(it)
	} else {
		k.forgetIdle(it)
	}
	k.markDrained()
	k.dispatch()
}

// Calling says that the reconcile waits for an external system until the returned function is called: within limits, it
// does not count as running, and a system that hangs occupies no workers.
func (w work) Calling() (end func()) {
	k := w.queue
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.calls.total >= k.limits.calls || k.calls.of[w.namespace] >= k.limits.callsOf {
		return func() {}
	}
	k.calls.add(w.namespace, 1)
	k.running.add(w.namespace, -1)
	k.dispatch()
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.calls.add(w.namespace, -1)
		k.running.add(w.namespace, 1)
	}
}

// Close drops the waiting keys, and ignores keys that are added later. The channel is closed once no reconcile is in flight.
func (k *kindQueue) Close() (drained <-chan struct{}) {
	k.mu.Lock()
	dropped := k.items
	if !k.closed {
		k.closed, k.items, k.waiting, k.failing = true, nil, [priorities]namespaces{}, 0
		k.markDrained()
	}
	k.mu.Unlock()
	for _, it := range dropped { // without the lock: there may be ten thousand
		if it.delayed != nil {
			it.delayed.timer.Stop()
		}
	}
	return k.drained
}

func (k *kindQueue) markDrained() {
	if k.closed && k.running.total+k.calls.total == 0 {
		close(k.drained)
	}
}

// AddFor requests a reconcile of the key, which is queued with those of a namespace. A key that waits already stays where
// it is. A change that the reconcile of the key itself has written requests none.
func (k *kindQueue) AddFor(namespace string, key object.Key, cause watch.Cause) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	it := k.item(key)
	if _, isOwn := it.wrote[cause.Write]; isOwn {
		return
	}
	if !it.requested {
		it.namespace = namespace
	}
	r := request{priority: cause.Priority, since: time.Now(), causes: tracing.CausedBy(cause.Trace)}
	if it.active && cause.Write != (watch.Write{}) {
		r.writes = []watch.Write{cause.Write}
	}
	k.request(it, r)
}

// Wrote says that the reconcile of the key in flight has made a write. Its event, which comes before the answer or after it,
// is no reason for another reconcile.
func (k *kindQueue) Wrote(key object.Key, w watch.Write) {
	k.mu.Lock()
	defer k.mu.Unlock()
	it, ok := k.items[key]
	if !ok || !it.active {
		return
	}
	if it.wrote == nil {
		it.wrote = map[watch.Write]struct{}{}
	}
	it.wrote[w] = struct{}{}
	if writes := it.request.writes; it.requested && len(writes) > 0 {
		it.request.writes = slices.DeleteFunc(writes, func(other watch.Write) bool { return other == w })
		it.requested = len(it.request.writes) > 0
	}
}

// item returns the item of a key, and creates it if there is none.
func (k *kindQueue) item(key object.Key) *item {
	it, ok := k.items[key]
	if !ok {
		it = &item{key: key, namespace: key.Namespace}
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
	had, waits := it.request, it.requested && !it.active
	if it.requested {
		a = had.merge(a)
	}
	it.requested, it.request = true, a
	switch {
	case it.active: // it waits for the end of its reconcile
	case !waits:
		k.push(it)
	case a.priority != had.priority:
		k.waiting[had.priority].remove(it)
		k.push(it)
	}
	k.dispatch()
}

// push adds an item to the waiting ones of its priority.
func (k *kindQueue) push(it *item) {
	if !k.closed {
		k.waiting[it.request.priority].push(it)
	}
}

// depth is how many keys wait.
func (k *kindQueue) depth() (n int) {
	for p := range k.waiting {
		n += k.waiting[p].len
	}
	return n
}
