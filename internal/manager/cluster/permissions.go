package cluster

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// permissions notices that rights are granted or revoked, also while nothing else happens:
// by the roles and bindings, which are watched, and by requests that are forbidden, since
// not every authorizer shows what it decides by. Then the API server is asked what is
// allowed, and whoever has asked before is told if that has changed.
type permissions struct {
	cluster *Cluster
	news    chan struct{} // holds one: something has become due earlier

	mu     sync.Mutex
	due    reviews
	doubts map[string]*doubt // by the user whom something was forbidden
}

// reviews are when to ask what everybody is allowed; zero for never.
type reviews struct{ first, second time.Time }

// A change of roles is often one of several, and it takes the API server a moment to go by
// it, of which it doesn't tell. So it is asked soon and once more.
const (
	soonReview   = 200 * time.Millisecond
	secondReview = 3 * time.Second
)

// doubt is about what a user is allowed, since something was forbidden.
type doubt struct {
	due   time.Time // zero if there is none now
	last  time.Time
	pause time.Duration // after the last
}

// How soon it is asked what a user is allowed to whom something was forbidden, and how
// seldom where the answer stays the same and more is forbidden.
const (
	soonDoubt   = time.Second
	firstDoubt  = 10 * time.Second
	seldomDoubt = 5 * time.Minute
)

func newPermissions(k *Cluster) *permissions {
	return &permissions{cluster: k, news: make(chan struct{}, 1), doubts: map[string]*doubt{}}
}

// shown are the kinds that say who may do what in all namespaces.
var shown = []schema.GroupVersionKind{
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
}

// run notices until the context ends.
func (p *permissions) run(ctx context.Context) {
	for _, gvk := range shown {
		defer p.cluster.Hub.Serve(gvk, p.changed).Stop()
	}
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	for {
		due.Reset(p.next(time.Now()))
		select {
		case <-ctx.Done():
			return
		case <-p.news:
		case <-due.C:
			p.review(ctx, time.Now())
		}
	}
}

// changed is told of each role and binding. Those that were there when they were first read
// are no change.
func (p *permissions) changed(key object.Key, cause watch.Cause) {
	if key.Name == "" || cause.Priority == watch.Background {
		return
	}
	now := time.Now()
	p.mu.Lock()
	if p.due.first.IsZero() {
		p.due.first = now.Add(soonReview)
	}
	p.due.second = now.Add(secondReview)
	p.mu.Unlock()
	p.wake()
}

// refused is told that something was forbidden to a user.
func (p *permissions) refused(user string) {
	now := time.Now()
	p.mu.Lock()
	d := p.doubts[user]
	if d == nil {
		d = &doubt{}
		p.doubts[user] = d
	}
	fresh := d.due.IsZero()
	if fresh {
		d.due = d.next(now)
	}
	p.mu.Unlock()
	if fresh {
		p.wake()
	}
}

// next is when to ask for something that is forbidden now.
func (d *doubt) next(now time.Time) time.Time {
	soon, later := now.Add(soonDoubt), d.last.Add(d.pause)
	if later.After(soon) {
		return later
	}
	return soon
}

// settled notes an answer. The next comes later if it is the same as before.
func (d *doubt) settled(changed bool, now time.Time) {
	d.due, d.last = time.Time{}, now
	switch {
	case changed:
		d.pause = 0
	case d.pause == 0:
		d.pause = firstDoubt
	default:
		d.pause = min(2*d.pause, seldomDoubt)
	}
}

func (p *permissions) wake() {
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// next is how long until something is due.
func (p *permissions) next(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	soonest := now.Add(time.Hour)
	for _, at := range append([]time.Time{p.due.first, p.due.second}, p.doubted()...) {
		if !at.IsZero() && at.Before(soonest) {
			soonest = at
		}
	}
	return soonest.Sub(now)
}

// doubted is when doubts are due. The lock is held.
func (p *permissions) doubted() (all []time.Time) {
	for _, d := range p.doubts {
		all = append(all, d.due)
	}
	return all
}

// review asks what is due.
func (p *permissions) review(ctx context.Context, now time.Time) {
	past := func(at time.Time) bool { return !at.IsZero() && !at.After(now) }
	p.mu.Lock()
	everybody := past(p.due.first) || past(p.due.second)
	if past(p.due.first) {
		p.due.first = time.Time{}
	}
	if past(p.due.second) {
		p.due.second = time.Time{}
	}
	doubts := map[string]*doubt{}
	for user, d := range p.doubts {
		if past(d.due) {
			doubts[user] = d
		}
	}
	p.mu.Unlock()
	for user, client := range p.cluster.clients() {
		d := doubts[user]
		if !everybody && d == nil {
			continue
		}
		changed, err := client.Refresh(ctx, d != nil)
		if err != nil && ctx.Err() == nil {
			p.cluster.options.Log.V(1).Info("cannot determine what is allowed", "user", user, "error", err.Error())
		}
		if d != nil {
			p.mu.Lock()
			d.settled(changed, now)
			p.mu.Unlock()
		}
		delete(doubts, user)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for user := range doubts {
		delete(p.doubts, user) // nobody acts as that one any more
	}
}

// noticing returns a copy of the configuration whose requests for a user tell when they are
// forbidden.
func (p *permissions) noticing(config *rest.Config, user string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return noticing{p, user, next} })
	return config
}

type noticing struct {
	*permissions
	user string
	next http.RoundTripper
}

// RoundTrip makes a request. What is asked about rights themselves is of no interest.
func (n noticing) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := n.next.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusForbidden && !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/") {
		n.refused(n.user)
	}
	return answer, err
}

// permitted passes on that a user is allowed something else.
func (k *Cluster) permitted(user string) {
	if k.options.Permitted != nil {
		k.options.Permitted(user)
	}
}

// clients are those whose rights are in use, by the user's name: this program's own, which
// has none, and those of accounts that anything is watched as.
func (k *Cluster) clients() map[string]*kube.Client {
	k.accounts.mu.Lock()
	defer k.accounts.mu.Unlock()
	out := map[string]*kube.Client{"": k.Client}
	for user, a := range k.accounts.all {
		if !a.Hub.Idle() {
			out[user] = a.Client
		}
	}
	return out
}
