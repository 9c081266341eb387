package queue

import "github.com/espalier-dev/espalier/internal/kube/watch"

// The most urgent work goes first, whichever kind it is of: a user waits for it. Lower priorities must progress all the
// same while there is always urgent work. One key in four, a quarter of the workers' time, hardly delays a user and
// finishes ten thousand instances in good time. One in sixteen is of the lowest priority, so that it progresses also while
// there is always work of the middle one.
const (
	lowerEvery  = 4
	lowestEvery = 16
)

// reservedWorkers is how many workers are kept for kinds that have no reconcile in flight. A kind whose reconciles hang
// until their timeout occupies at most the other workers, so every other kind still gets one at once, unless as many
// kinds as reserved workers hang. A quarter is enough for that and leaves most of the workers to a single busy kind.
func reservedWorkers(workers int) int {
	if workers <= 1 {
		return 0
	}
	return max(1, workers/4)
}

// reservedForNamespaces is how many more workers are kept for namespaces of which the kind has no reconcile in flight.
// Otherwise an object would wait until one of another namespace is reconciled, which takes as long as the API server is
// busy with that namespace. An eighth is enough for a few users at a time.
func reservedForNamespaces(workers int) int { return workers / 8 }

// mayRun says whether a kind may use another worker for a key of the priority, given that one is free.
func (q *workQueue) mayRun(k *kindQueue, priority watch.Priority) bool {
	return q.mayRunAny(k) || q.free > q.reserved && k.waiting[priority].firstIdle(k.inFlight) != nil
}

// mayRunAny says whether a kind may use another worker for keys of all namespaces, given that one is free.
func (q *workQueue) mayRunAny(k *kindQueue) bool {
	return k.active == 0 || q.free > q.reserved+q.reservedForNamespaces
}

// selectNext returns the kind whose key is next, and its priority; nil if nothing may run
// now.
func (q *workQueue) selectNext() (k *kindQueue, priority watch.Priority) {
	lower := 0 // how many priorities with waiting keys to skip, if there is a lower one that may run
	switch n := q.popped + 1; {
	case n%lowestEvery == 0:
		lower = int(priorities)
	case n%lowerEvery == 0:
		lower = 1
	}
	for p := int(watch.Urgent); p >= 0 && (lower >= 0 || k == nil); p-- {
		first, waiting := q.firstRunnable(watch.Priority(p))
		if first != nil {
			k, priority = first, watch.Priority(p)
		}
		if waiting {
			lower-- // also if none may run: otherwise the lowest is served instead, and the one between starves
		}
	}
	return k, priority
}

// firstRunnable returns the kind that is served next in a priority, and whether any kind waits in it. Kinds at their bound
// are skipped and keep their place. They have reconciles in flight, so there are never more of them than workers.
func (q *workQueue) firstRunnable(priority watch.Priority) (first *kindQueue, waiting bool) {
	for k := range q.rounds[priority].all() {
		if q.mayRun(k, priority) {
			return k, true
		}
		waiting = true
	}
	return nil, waiting
}

// pop removes a waiting key of the kind, of the priority or of a starved one, and gives it to a worker. If only namespaces
// without a reconcile in flight may use one, it is the first key of such a namespace.
func (k *kindQueue) pop(priority watch.Priority) work {
	k.rounds[priority].unlink()
	k.parent.rounds[priority].pushBack(&k.rounds[priority])
	var it *item
	if k.parent.mayRunAny(k) {
		priority = k.starvedOr(priority)
		it = k.waiting[priority].pop()
	} else {
		it = k.waiting[priority].popFrom(k.waiting[priority].firstIdle(k.inFlight))
	}
	k.removed(priority)
	it.requested, it.active = false, true
	k.active++
	k.inFlight[it.namespace]++
	it.countedAs = it.namespace
	k.parent.popped++
	k.parent.free--
	k.skipped[priority] = 0
	for other := range priorities {
		if other != priority && !k.waiting[other].empty() {
			k.skipped[other]++
		}
	}
	return work{k, it, it.request}
}

// starvedOr returns the priority of the kind that was skipped too often, or else the given one. A priority is skipped that
// often if the kind is at its bound each time the priority is served, by chance or since all reconciles take equally long.
func (k *kindQueue) starvedOr(priority watch.Priority) watch.Priority {
	for other := range priorities {
		if k.skipped[other] >= lowestEvery {
			return other
		}
	}
	return priority
}
