package watch

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// waiter is a subscriber of a hub that a quota has refused.
type waiter struct {
	hub        *Hub
	subscriber Subscriber
}

// waiting has the subscribers that a quota has refused and not woken since. They are woken in the order of
// their refusals, about as many as there are free watches: each costs a reconcile. It is guarded by the
// quota's lock.
type waiting struct {
	refusals        map[waiter]refusal
	refusalCount    uint64
	isWakeScheduled bool
}

// refusal is why a subscriber waits, and its number in the order of all.
type refusal struct {
	number           uint64
	namespace, total bool // the limits that refused it
}

// wakeInterval is how long after the end of a watch subscribers are woken, and then the next ones
// while these leave watches free.
const wakeInterval = time.Second

// addRefusal adds a subscriber, or another limit that refused it.
func (q *waiting) addRefusal(w waiter, limit string) {
	r := ensure(&q.refusals, w, func() refusal {
		q.refusalCount++
		return refusal{number: q.refusalCount}
	})
	r.namespace, r.total = r.namespace || limit == PerNamespaceFlag, r.total || limit == TotalFlag
	q.refusals[w] = r
}

// forget ends the waiting of subscribers.
func (q *Quota) forget(waiters ...waiter) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range waiters {
		delete(q.refusals, w)
	}
}

// forgetAll ends the waiting of those that match.
func (q *Quota) forgetAll(matches func(waiter) bool) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.refusals, func(w waiter, _ refusal) bool { return matches(w) })
}

// wakeSoon wakes subscribers after a moment. The lock is held.
func (q *Quota) wakeSoon() {
	if len(q.refusals) == 0 || q.isWakeScheduled {
		return
	}
	q.isWakeScheduled = true
	time.AfterFunc(wakeInterval, q.wakeNext)
}

func (q *Quota) wakeNext() {
	q.mu.Lock()
	q.isWakeScheduled = false
	woken := q.takeAdmissible()
	if len(woken) > 0 {
		q.wakeSoon() // the next ones, if these need no watch any more
	}
	q.mu.Unlock()
	for _, w := range woken {
		w.hub.env.Enqueue(w.subscriber, Cause{Object: w.subscriber.Key, Change: Resync, Priority: Background, ObservedAt: time.Now()})
	}
}

// takeAdmissible removes and returns the subscribers for which watches are free, one watch for each, in the
// order of their refusals. One of them that is refused again is the last. The lock is held.
func (q *Quota) takeAdmissible() (taken []waiter) {
	inOrder := slices.SortedFunc(maps.Keys(q.refusals), func(a, b waiter) int {
		return cmp.Compare(q.refusals[a].number, q.refusals[b].number)
	})
	free, freeIn := q.limits.Total-len(q.watches), map[string]int{}
	for _, w := range inOrder {
		namespace, r := w.subscriber.Namespace, q.refusals[w]
		if _, known := freeIn[namespace]; !known {
			freeIn[namespace] = q.limits.PerNamespace - len(q.namespaces[namespace])
		}
		switch {
		case r.namespace && freeIn[namespace] > 0:
			freeIn[namespace]--
		case r.total && free > 0:
			free--
		default:
			continue
		}
		delete(q.refusals, w)
		taken = append(taken, w)
	}
	return taken
}
