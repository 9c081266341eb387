package engine

import "github.com/espalier-dev/espalier/internal/watch"

// The most urgent work goes first, whosever it is: a person waits for it. But
// while there is urgent work without end, the rest must go on, if slowly. One
// hand-out in four, a quarter of the workers' time, is what a person hardly
// notices and what finishes ten thousand instances in good time. One in sixteen is
// for the lowest class, so that it goes on also if the one above it has work
// without end.
const (
	lowerEvery  = 4
	lowestEvery = 16
)

// reserve is how many workers are kept for lanes that have no pass in flight. A
// kind whose passes hang, each until its timeout, can so take all workers but
// these, and every other kind still has its turn at once, unless as many kinds as
// this hang as well. A quarter is enough for that and leaves one kind alone most
// of the workers.
func reserve(workers int) int {
	if workers <= 1 {
		return 0
	}
	return max(1, workers/4)
}

// may tells whether a lane may have another worker, one being free.
func (q *queue) may(l *lane) bool { return l.active == 0 || q.free > q.reserve }

// next says whose turn it is, and in which class; no lane where nothing that
// waits may be worked on now.
func (q *queue) next() (l *lane, class watch.Priority) {
	lower := 0 // by so many classes that have work
	switch n := q.handed + 1; {
	case n%lowestEvery == 0:
		lower = int(classes)
	case n%lowerEvery == 0:
		lower = 1
	}
	for p := int(watch.Urgent); p >= 0 && lower >= 0; p-- {
		if first := q.first(watch.Priority(p)); first != nil {
			l, class = first, watch.Priority(p)
			lower--
		}
	}
	return l, class
}

// first is the lane whose turn it is in a class. Those at their bound are passed
// over and keep their turn. They have passes in flight, so there are never more of
// them to look at than there are workers.
func (q *queue) first(class watch.Priority) *lane {
	for l := range q.turns[class].all() {
		if q.may(l) {
			return l
		}
	}
	return nil
}

// hand gives a worker a key of the lane, whose turn it is in a class.
func (l *lane) hand(class watch.Priority) turn {
	l.turns[class].leave()
	l.q.turns[class].join(&l.turns[class])
	class = l.overdue(class)
	it := l.waiting[class].first()
	l.leave(it, class)
	it.asked, it.active = false, true
	l.active++
	l.q.handed++
	l.q.free--
	l.passed[class] = 0
	for other := range classes {
		if other != class && !l.waiting[other].empty() {
			l.passed[other]++
		}
	}
	return turn{l, it, it.ask}
}

// overdue replaces a class by another that the lane's hand-outs have passed over
// for too long. It happens where chance, or passes that take equally long, have
// the lane at its bound whenever that class has its turn.
func (l *lane) overdue(class watch.Priority) watch.Priority {
	for other := range classes {
		if l.passed[other] >= lowestEvery {
			return other
		}
	}
	return class
}
