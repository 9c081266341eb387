package watch

import (
	"cmp"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Limits bound the watches of objects that are not the instances' own: the watches of single objects and of selections
// by labels or namespace. They do not bound the watches of managed objects, and of whole kinds, which a selector that
// matches everything in all namespaces needs too: of these, each hub has as many as there are kinds, and there is a hub
// for each account. Nor do they bound the watches of managed objects in the instance's own namespace, which exists;
// those in other namespaces count, because an instance can name any. They do not bound what controllers read for
// themselves either. A zero field is its default.
type Limits struct {
	// PerSubscriber bounds the targets of one instance, without the targets of Lease.OwnObject. Default MaxPerInstance.
	PerSubscriber int `json:"perInstance"`
	// PerNamespace bounds the watches for the instances of one namespace, and Total those for
	// all instances. A watch that several share counts once. Defaults MaxPerNamespace and
	// MaxWatches.
	PerNamespace int `json:"perNamespace"`
	Total        int `json:"total"`
}

// Default limits of watches.
const (
	MaxPerInstance  = 1000
	MaxPerNamespace = 2000
	MaxWatches      = 10_000
)

// The fields of the configuration file that set the limits.
const (
	PerInstanceField  = "watchLimits.perInstance"
	PerNamespaceField = "watchLimits.perNamespace"
	TotalField        = "watchLimits.total"
)

// WithDefaults returns the limits with defaults in place of zeros.
func (l Limits) WithDefaults() Limits {
	return Limits{
		PerSubscriber: cmp.Or(l.PerSubscriber, MaxPerInstance),
		PerNamespace:  cmp.Or(l.PerNamespace, MaxPerNamespace),
		Total:         cmp.Or(l.Total, MaxWatches),
	}
}

// Quota counts the watches of several hubs for instances against their limits. It is safe for concurrent use.
// A nil Quota has no limits.
type Quota struct {
	limits   Limits
	refusals *prometheus.CounterVec

	mu sync.Mutex // the innermost: it is taken under the hub's lock, and no other under it
	// watches has how many interests count in each actor. One without any counts for as long as
	// its watch continues for nobody else.
	watches map[*actor]int
	// namespaces maps the same by the namespace of instances, without actors that have none.
	namespaces map[string]map[*actor]int
	// refused are the subscribers that were refused for the number of watches, and not woken since.
	refused map[waiter]struct{}
	wakes   bool // soon
}

type waiter struct {
	hub        *Hub
	subscriber Subscriber
}

// NewQuota returns a quota without watches.
func NewQuota(l Limits) *Quota {
	return &Quota{
		limits: l.WithDefaults(), watches: map[*actor]int{}, namespaces: map[string]map[*actor]int{},
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "espalier_watch_limits_exceeded_total",
			Help: "Reads for instances that were refused because a limit of watches was reached, by the field of the configuration file.",
		}, []string{"limit"}),
	}
}

// Describe implements prometheus.Collector.
func (q *Quota) Describe(out chan<- *prometheus.Desc) { q.refusals.Describe(out) }

// Collect implements prometheus.Collector.
func (q *Quota) Collect(out chan<- prometheus.Metric) { q.refusals.Collect(out) }

// counts reports whether the watches of a selection count for an instance of a namespace.
func (q *Quota) counts(s Selection, namespace string) bool {
	if q == nil || s == All() {
		return false
	}
	return !s.managed || s.isManagedIn() && s.namespace != namespace
}

// check returns why a subscriber is refused one more target, which an actor serves, or a new one if that is nil; empty
// if it may. A target that replaces a watch of the subscriber is not refused for the number of watches. A subscriber
// that is refused for the number of watches is woken when one has ended.
func (q *Quota) check(w waiter, targets int, a *actor, replaces bool) (refusal string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := w.subscriber.Namespace
	inNamespace := q.namespaces[namespace]
	_, watched := q.watches[a]
	limit, most := "", 0
	switch {
	case targets >= q.limits.PerSubscriber:
		limit, most = PerInstanceField, q.limits.PerSubscriber
		refusal = "the instance reads more than %d objects and selections that are not its own (%s)"
	case replaces:
		return ""
	case inNamespace[a] == 0 && len(inNamespace) >= q.limits.PerNamespace:
		limit, most = PerNamespaceField, q.limits.PerNamespace
		refusal = "the instances of the namespace cause more than %d watches (%s)"
	case !watched && len(q.watches) >= q.limits.Total:
		limit, most = TotalField, q.limits.Total
		refusal = "there are %d watches already (%s)"
	default:
		return ""
	}
	if limit != PerInstanceField {
		ensure(&q.refused, w, func() struct{} { return struct{}{} })
	}
	q.refusals.WithLabelValues(limit).Inc()
	return fmt.Sprintf(refusal, most, limit)
}

func (q *Quota) acquired(namespace string, a *actor) {
	q.mu.Lock()
	defer q.mu.Unlock()
	in := ensure(&q.namespaces, namespace, func() map[*actor]int { return map[*actor]int{} })
	in[a]++
	q.watches[a]++
}

// released undoes acquired. The actor counts no more if only interests that do not count keep it running.
func (q *Quota) released(namespace string, a *actor, continues bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.watches[a] == 0 {
		return // its hub has stopped
	}
	if q.watches[a]--; q.watches[a] == 0 && continues {
		delete(q.watches, a)
	}
	in := q.namespaces[namespace]
	if in[a]--; in[a] > 0 {
		return
	}
	delete(in, a)
	if len(in) == 0 {
		delete(q.namespaces, namespace)
	}
	q.wakeSoon()
}

// The actors have ended, or serve nobody who counts.
func (q *Quota) uncount(actors ...*actor) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range actors {
		interests := q.watches[a]
		delete(q.watches, a)
		if interests == 0 {
			continue
		}
		for namespace, in := range q.namespaces { // its hub stops
			delete(in, a)
			if len(in) == 0 {
				delete(q.namespaces, namespace)
			}
		}
	}
	q.wakeSoon()
}

func (q *Quota) forget(waiters ...waiter) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range waiters {
		delete(q.refused, w)
	}
}

func (q *Quota) forgetAll(matches func(waiter) bool) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.refused, func(w waiter, _ struct{}) bool { return matches(w) })
}

// wakeInterval is how long after the end of a watch subscribers are woken.
const wakeInterval = time.Second

// wakeSoon wakes the subscribers that were refused, after a moment in which other watches may end too. Subscribers
// without a free watch are refused again. The lock is held.
func (q *Quota) wakeSoon() {
	if len(q.refused) == 0 || q.wakes {
		return
	}
	q.wakes = true
	time.AfterFunc(wakeInterval, func() {
		q.mu.Lock()
		woken := q.refused
		q.refused, q.wakes = nil, false
		q.mu.Unlock()
		for w := range woken {
			w.hub.env.Enqueue(w.subscriber, Cause{Object: w.subscriber.Key, Change: Resync, Priority: Background, ObservedAt: time.Now()})
		}
	})
}
