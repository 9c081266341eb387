package engine

import (
	"sync"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/watch"
)

// classes is how many priorities there are, and each is a class of work.
const classes = watch.Urgent + 1

// queue hands out work to workers: keys in lanes, one lane a controller. Equal
// keys coalesce, one key is never worked on twice at a time, and none is dropped
// while its lane is open. What goes first is the matter of turns.go. It is safe
// for concurrent use.
type queue struct {
	mu sync.Mutex
	// added is signalled for each key that comes to wait. A pass that ends needs no
	// signal: what its end allows is at most one more, and the worker that ended it
	// is the next to ask.
	added *sync.Cond
	lanes map[*lane]struct{}
	// turns are, for each class, the lanes that have keys waiting in it, in the
	// order of their turns.
	turns [classes]ring[*lane]
	// handed counts the hand-outs.
	handed uint64
	// free is how many workers have no pass to do, reserve how many of them are kept
	// for lanes without a pass in flight.
	free, reserve int
	closed        bool
}

// turn is a key whose turn it is, for the worker that got it.
type turn struct {
	lane *lane
	item *item
	// ask is how it was asked for.
	ask ask
}

func (t turn) key() object.Key { return t.item.key }

func newQueue(workers int) *queue {
	q := &queue{lanes: map[*lane]struct{}{}, free: workers, reserve: reserve(workers)}
	q.added = sync.NewCond(&q.mu)
	return q
}

// get waits for work that may be done now, and hands it out; false once the queue
// is closed. Each of the workers ends one turn before it gets another.
func (q *queue) get() (turn, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.closed {
		if l, class := q.next(); l != nil {
			return l.hand(class), true
		}
		q.added.Wait()
	}
	return turn{}, false
}

// done says that the work on a key is over.
func (t turn) done() {
	l, it := t.lane, t.item
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	l.q.free++
	l.active--
	it.active = false
	if it.asked {
		l.enter(it)
	} else {
		l.tidy(it)
	}
	l.endIfOver()
}

// close ends the queue: nothing is handed out any more, nor taken.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for l := range q.lanes {
		stopTimers(l.items)
	}
	q.added.Broadcast()
}
