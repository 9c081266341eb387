package queue

import "github.com/espalier-dev/espalier/internal/kube/watch"

// The most urgent work goes first, whichever kind it is of: a person waits for it. But while there is urgent work without
// end, the rest must go on, if slowly. One key in four, a quarter of the workers' time, is what a person hardly notices and
// what finishes ten thousand instances in good time. One in sixteen is for the lowest priority, so that it goes on also if
// the one above it has work without end.
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

// mayRun says whether a kind may use another worker, given that one is free.
func (q *workQueue) mayRun(l *kindQueue) bool { return l.active == 0 || q.free > q.reserved }

// selectNext returns the next kind in the round robin, and its priority class; nil if
// nothing may run now.
func (q *workQueue) selectNext() (l *kindQueue, class watch.Priority) {
	lower := 0 // how many nonempty classes to pass over
	switch n := q.popped + 1; {
	case n%lowestEvery == 0:
		lower = int(classes)
	case n%lowerEvery == 0:
		lower = 1
	}
	for p := int(watch.Urgent); p >= 0 && lower >= 0; p-- {
		if first := q.firstRunnable(watch.Priority(p)); first != nil {
			l, class = first, watch.Priority(p)
			lower--
		}
	}
	return l, class
}

// firstRunnable is the kind whose round it is in a priority. Kinds at their bound are skipped and keep their place. They
// have reconciles in flight, so there are never more of them to look at than there are workers.
func (q *workQueue) firstRunnable(class watch.Priority) *kindQueue {
	for l := range q.rounds[class].all() {
		if q.mayRun(l) {
			return l
		}
	}
	return nil
}

// pop removes a key of the kind from a class and gives it to a worker.
func (l *kindQueue) pop(class watch.Priority) work {
	l.rounds[class].unlink()
	l.parent.rounds[class].pushBack(&l.rounds[class])
	class = l.starved(class)
	it := l.waiting[class].front()
	l.remove(it, class)
	it.requested, it.active = false, true
	l.active++
	l.parent.popped++
	l.parent.free--
	l.skipped[class] = 0
	for other := range classes {
		if other != class && !l.waiting[other].empty() {
			l.skipped[other]++
		}
	}
	return work{l, it, it.request}
}

// starved replaces a priority by another that has been skipped for too long. It happens where chance, or reconciles that
// take equally long, have the kind at its bound whenever that priority has its round.
func (l *kindQueue) starved(class watch.Priority) watch.Priority {
	for other := range classes {
		if l.skipped[other] >= lowestEvery {
			return other
		}
	}
	return class
}
