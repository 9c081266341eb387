package engine

import (
	"time"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/watch"
)

// lane is the work of one controller. The queue's lock guards all of it.
type lane struct {
	q *queue
	// of is whose work it is.
	of *Controller
	// items are the keys of which there is something to remember.
	items map[object.Key]*item
	// waiting are those that wait for a pass, by class, and turns the lane's own
	// places in the queue.
	waiting [classes]ring[*item]
	turns   [classes]place[*lane]
	// passed counts, for a class with keys waiting, the lane's hand-outs to others
	// since its own last.
	passed [classes]int
	// depth, active and failing count the items that wait, that are worked on, and
	// whose last pass failed.
	depth, active, failing int
	closed                 bool
	// over is closed once the lane is, and no work of it is left in flight.
	over chan struct{}
}

// item is what there is to remember of a key.
type item struct {
	key object.Key
	// asked says that the key was asked for, and ask how: it waits at its place, or
	// for the end of the pass over it.
	asked, active bool
	ask           ask
	place         place[*item]
	failures      int
	later         *deferral
}

// ask is how urgently a key was asked for, and since when.
type ask struct {
	priority watch.Priority
	since    time.Time
}

// and joins two asks for one key: the more urgent counts, and who asked first.
func (a ask) and(other ask) ask {
	if other.since.Before(a.since) {
		a.since = other.since
	}
	a.priority = max(a.priority, other.priority)
	return a
}

// open adds a lane for the work of a controller.
func (q *queue) open(of *Controller) *lane {
	l := &lane{q: q, of: of, items: map[object.Key]*item{}, over: make(chan struct{})}
	for class := range l.turns {
		l.turns[class].of = l
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lanes[l] = struct{}{}
	return l
}

// close drops the lane's waiting work, and takes no more. The channel is closed
// once what is being worked on is done.
func (l *lane) close() (over <-chan struct{}) {
	stopTimers(l.drop()) // without the lock: there may be ten thousand, and others have work to do
	return l.over
}

// drop empties the lane at once, however much there is in it.
func (l *lane) drop() (dropped map[object.Key]*item) {
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	for class := range l.turns {
		l.turns[class].leave()
	}
	dropped, l.items = l.items, nil
	l.waiting, l.depth, l.failing = [classes]ring[*item]{}, 0, 0
	l.endIfOver()
	return dropped
}

func (l *lane) endIfOver() {
	if l.closed && l.active == 0 {
		close(l.over)
		delete(l.q.lanes, l)
	}
}

// add asks for the key to be worked on.
func (l *lane) add(key object.Key, p watch.Priority) {
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	if !l.refuses() {
		l.want(l.item(key), ask{p, time.Now()})
	}
}

func (l *lane) refuses() bool { return l.closed || l.q.closed }

// item finds what is remembered of a key, or begins to remember it.
func (l *lane) item(key object.Key) *item {
	it, ok := l.items[key]
	if !ok {
		it = &item{key: key}
		it.place.of = it
		l.items[key] = it
	}
	return it
}

// tidy forgets an item of which nothing is left to remember.
func (l *lane) tidy(it *item) {
	if !it.asked && !it.active && it.failures == 0 && it.later == nil {
		delete(l.items, it.key)
	}
}

// want notes that an item is asked for. One that becomes more urgent moves; it
// never has more than one place.
func (l *lane) want(it *item, a ask) {
	if it.asked {
		had := it.ask
		it.ask = had.and(a)
		if it.active || it.ask.priority == had.priority {
			return
		}
		l.leave(it, had.priority)
		l.enter(it)
		return
	}
	it.asked, it.ask = true, a
	if !it.active {
		l.enter(it)
	}
}

// enter lets an item wait in the class of its ask.
func (l *lane) enter(it *item) {
	if l.refuses() {
		return
	}
	class := it.ask.priority
	l.waiting[class].join(&it.place)
	l.depth++
	if t := &l.turns[class]; !t.taken() {
		l.q.turns[class].join(t)
	}
	l.q.added.Signal()
}

// leave takes an item out of a class.
func (l *lane) leave(it *item, class watch.Priority) {
	it.place.leave()
	l.depth--
	if l.waiting[class].empty() {
		l.turns[class].leave()
		l.passed[class] = 0
	}
}
