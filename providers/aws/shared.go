package aws

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/espalier-dev/espalier/providers/aws/account"
	"github.com/espalier-dev/espalier/providers/aws/cloudcontrol"
	"github.com/espalier-dev/espalier/providers/aws/metrics"
)

// The clients of an account and region share them.
type accounts struct {
	options   Options
	connector *account.Connector
	metrics   *metrics.Metrics

	mu sync.Mutex
	// known contains the accounts that AWS has named, or an administrator's endpoint; claimed the accounts that only
	// endpoints of namespaces have: they can name any number of accounts, and must not displace known ones.
	known, claimed shared
}

type shared struct {
	limiters kept[accountKey, *cloudcontrol.Limiter]
	reads    kept[connection, *cloudcontrol.Reads]
}

// Untrusted is the namespace with the endpoint that has named the account; otherwise it is empty.
type accountKey struct{ untrusted, account, region string }

// With other credentials, another client reads.
type connection struct {
	account accountKey
	role    string
	session any
}

const (
	// maxShared bounds the accounts and regions with kept limiters, and the connections with kept reads.
	maxShared = 1000
	// keepUnused is how long they are kept without use: longer than the pause between two observations.
	keepUnused = time.Hour
	// sweepEvery is how often those are looked for that are not used any more.
	sweepEvery = time.Minute
)

func (a *accounts) state(of connection) (*cloudcontrol.Limiter, *cloudcontrol.Reads) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, now := &a.known, a.options.Now()
	if of.account.untrusted != "" {
		s = &a.claimed
	}
	return s.limiters.get(of.account, now, func() *cloudcontrol.Limiter { return cloudcontrol.NewLimiter(a.metrics) }),
		s.reads.get(of, now, func() *cloudcontrol.Reads { return cloudcontrol.NewReads(a.options.Now) })
}

// The states of known accounts come first, in the order of their first use.
func (a *accounts) limits() []metrics.Limit {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []metrics.Limit
	add := func(key accountKey, l *cloudcontrol.Limiter) {
		s := l.State()
		out = append(out, metrics.Limit{Account: key.account, Region: key.region, Rate: s.Rate, Waiting: s.Waiting, Throttled: s.Throttled, NotSent: s.NotSent})
	}
	a.known.limiters.each(add)
	a.claimed.limiters.each(func(_ accountKey, l *cloudcontrol.Limiter) { add(accountKey{}, l) })
	return out
}

// What is not used any more is removed, and when there is too much, what was not used for longest. The zero value is
// empty.
type kept[K comparable, V any] struct {
	all   map[K]*used[V]
	swept time.Time
	count int
}

type used[V any] struct {
	value V
	at    time.Time
	// number is larger for what was created later.
	number int
}

func (k *kept[K, V]) get(key K, now time.Time, create func() V) V {
	k.sweep(now)
	if found := k.all[key]; found != nil {
		found.at = now
		return found.value
	}
	if k.all == nil {
		k.all = map[K]*used[V]{}
	}
	if len(k.all) >= maxShared {
		k.removeOldest()
	}
	k.count++
	created := &used[V]{create(), now, k.count}
	k.all[key] = created
	return created.value
}

func (k *kept[K, V]) sweep(now time.Time) {
	if now.Sub(k.swept) < sweepEvery {
		return
	}
	k.swept = now
	for key, each := range k.all {
		if now.Sub(each.at) > keepUnused {
			delete(k.all, key)
		}
	}
}

func (k *kept[K, V]) removeOldest() {
	var oldest K
	var at *used[V]
	for key, each := range k.all {
		if at == nil || each.at.Before(at.at) {
			oldest, at = key, each
		}
	}
	delete(k.all, oldest)
}

// Values that were created first come first.
func (k *kept[K, V]) each(do func(K, V)) {
	keys := make([]K, 0, len(k.all))
	for key := range k.all {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b K) int { return cmp.Compare(k.all[a].number, k.all[b].number) })
	for _, key := range keys {
		do(key, k.all[key].value)
	}
}
