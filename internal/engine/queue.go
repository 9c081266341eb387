package engine

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/watch"
)

// Failed work is repeated after a delay that doubles, with some jitter so that
// what failed together doesn't return together. It is never dropped.
const (
	firstDelay   = 100 * time.Millisecond
	longestDelay = 2 * time.Minute
)

// queue hands out work: keys in lanes, one lane a controller. Equal keys
// coalesce; one key is never worked on twice at a time; lanes take turns, so
// that one with ten thousand keys doesn't hold up another's first; within a lane
// the more urgent goes first. It is safe for concurrent use.
type queue struct {
	mu      sync.Mutex
	changed *sync.Cond
	lanes   map[*lane]struct{}
	// turns holds the lanes that have work, in the order of their turns.
	turns  []*lane
	closed bool
}

// lane is the work of one controller.
type lane struct {
	q *queue
	// of is whose work it is.
	of      *Controller
	waiting [watch.Urgent + 1][]object.Key
	queued  map[object.Key]watch.Priority
	// active are the keys being worked on; true for those to be repeated.
	active   map[object.Key]bool
	again    map[object.Key]watch.Priority
	timers   map[object.Key]*deferral
	failures map[object.Key]int
	inTurn   bool
	closed   bool
}

type deferral struct {
	timer *time.Timer
	due   time.Time
}

func newQueue() *queue {
	q := &queue{lanes: map[*lane]struct{}{}}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// open adds a lane for the work of a controller.
func (q *queue) open(of *Controller) *lane {
	l := &lane{
		q:        q,
		of:       of,
		queued:   map[object.Key]watch.Priority{},
		active:   map[object.Key]bool{},
		again:    map[object.Key]watch.Priority{},
		timers:   map[object.Key]*deferral{},
		failures: map[object.Key]int{},
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lanes[l] = struct{}{}
	return l
}

// close drops the lane's waiting work and returns once what is being worked on
// is done.
func (l *lane) close() {
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	l.closed = true
	for key, d := range l.timers {
		d.timer.Stop()
		delete(l.timers, key)
	}
	clear(l.queued)
	clear(l.again)
	l.waiting = [watch.Urgent + 1][]object.Key{}
	for len(l.active) > 0 {
		l.q.changed.Wait()
	}
	delete(l.q.lanes, l)
}

// add asks for the key to be worked on.
func (l *lane) add(key object.Key, p watch.Priority) {
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	l.addLocked(key, p)
}

func (l *lane) addLocked(key object.Key, p watch.Priority) {
	if l.closed || l.q.closed {
		return
	}
	if _, working := l.active[key]; working {
		l.active[key] = true
		l.again[key] = max(l.again[key], p)
		return
	}
	if had, ok := l.queued[key]; ok && had >= p {
		return
	}
	// A key that becomes more urgent is queued again; its older place is
	// recognised as stale when its turn comes.
	l.queued[key] = p
	l.waiting[p] = append(l.waiting[p], key)
	if !l.inTurn {
		l.inTurn = true
		l.q.turns = append(l.q.turns, l)
	}
	l.q.changed.Broadcast()
}

// addAfter asks for the key to be worked on after a delay. Of several requests
// the earliest counts.
func (l *lane) addAfter(key object.Key, delay time.Duration, p watch.Priority) {
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	if l.closed || l.q.closed {
		return
	}
	due := time.Now().Add(delay)
	if d, ok := l.timers[key]; ok {
		if !due.Before(d.due) {
			return
		}
		d.timer.Stop()
	}
	d := &deferral{due: due}
	d.timer = time.AfterFunc(delay, func() {
		l.q.mu.Lock()
		defer l.q.mu.Unlock()
		if l.timers[key] == d {
			delete(l.timers, key)
			l.addLocked(key, p)
		}
	})
	l.timers[key] = d
}

// retry asks for the key again after a delay that grows with each failure.
func (l *lane) retry(key object.Key) {
	l.q.mu.Lock()
	n := l.failures[key]
	l.failures[key] = n + 1
	l.q.mu.Unlock()
	delay := min(firstDelay<<min(n, 20), longestDelay)
	l.addAfter(key, delay/2+rand.N(delay/2+1), watch.Background)
}

// forget forgets the failures of a key.
func (l *lane) forget(key object.Key) {
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	delete(l.failures, key)
}

// get waits for work and hands it out; false when the queue is closed.
func (q *queue) get() (*lane, object.Key, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.turns) > 0 {
			l := q.turns[0]
			q.turns = q.turns[1:]
			key, ok := l.take()
			if l.hasWork() {
				q.turns = append(q.turns, l)
			} else {
				l.inTurn = false
			}
			if ok {
				l.active[key] = false
				return l, key, true
			}
		}
		if q.closed {
			return nil, object.Key{}, false
		}
		q.changed.Wait()
	}
}

// take removes the most urgent key of the lane.
func (l *lane) take() (object.Key, bool) {
	for p := int(watch.Urgent); p >= 0; p-- {
		for len(l.waiting[p]) > 0 {
			key := l.waiting[p][0]
			l.waiting[p] = l.waiting[p][1:]
			if had, ok := l.queued[key]; ok && had == watch.Priority(p) {
				delete(l.queued, key)
				return key, true
			}
		}
	}
	return object.Key{}, false
}

func (l *lane) hasWork() bool { return len(l.queued) > 0 }

// done says that the work on a key is over.
func (l *lane) done(key object.Key) {
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	repeat := l.active[key]
	p := l.again[key]
	delete(l.active, key)
	delete(l.again, key)
	if repeat {
		l.addLocked(key, p)
	}
	l.q.changed.Broadcast()
}

// depth counts the waiting keys of a lane.
func (l *lane) depth() int {
	l.q.mu.Lock()
	defer l.q.mu.Unlock()
	return len(l.queued)
}

// close ends the queue: get returns false once nothing is left.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.turns = nil
	for l := range q.lanes {
		for key, d := range l.timers {
			d.timer.Stop()
			delete(l.timers, key)
		}
	}
	q.changed.Broadcast()
}
