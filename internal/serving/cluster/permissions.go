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

// permissionReviewer detects that permissions are granted or revoked, also while nothing else
// happens: by watching roles and bindings, and by requests that are forbidden, since not every
// authorizer has objects to watch. It then repeats the access reviews that were made before;
// Options.OnPermissionsChange is called if a result has changed.
type permissionReviewer struct {
	cluster    *Cluster
	dueChanged chan struct{} // has room for one signal: a review is due earlier than before

	mu     sync.Mutex
	due    [len(reviewDelays)]time.Time // of the next reviews for all users; zero for none
	checks map[string]*accessCheck      // by user
}

// reviewDelays are the times from a change of roles to the reviews that it causes. Changes often
// come in groups, and the API server applies them a moment later, or much later if it is busy:
// it says when only by its answers.
var reviewDelays = [...]time.Duration{200 * time.Millisecond, 3 * time.Second, 30 * time.Second}

// accessCheck schedules the reviews for one user who was forbidden a request.
type accessCheck struct {
	due      time.Time // zero if no review is due
	last     time.Time
	interval time.Duration // from the last review to the next one
}

// The delay of a review after a forbidden request, and the least and the greatest interval
// between reviews while their results stay the same and requests are forbidden.
const (
	firstCheckDelay  = time.Second
	minCheckInterval = 10 * time.Second
	maxCheckInterval = 5 * time.Minute
)

func newPermissionReviewer(k *Cluster) *permissionReviewer {
	return &permissionReviewer{cluster: k, dueChanged: make(chan struct{}, 1), checks: map[string]*accessCheck{}}
}

// clusterRBACKinds are the kinds that grant permissions in all namespaces.
var clusterRBACKinds = []schema.GroupVersionKind{
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
}

// run reviews until the context ends.
func (p *permissionReviewer) run(ctx context.Context) {
	for _, gvk := range clusterRBACKinds {
		defer p.cluster.Hub.WatchKind(gvk, p.rbacChanged).Stop()
	}
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	for {
		due.Reset(p.next(time.Now()))
		select {
		case <-ctx.Done():
			return
		case <-p.dueChanged:
		case <-due.C:
			p.review(ctx, time.Now())
		}
	}
}

// rbacChanged is the event handler of roles and bindings. The initial list is not a change, but
// what it lists may have changed since the first review, unseen: one more review follows.
func (p *permissionReviewer) rbacChanged(key object.Key, cause watch.Cause) {
	if key.Name == "" {
		return
	}
	now := time.Now()
	p.mu.Lock()
	if cause.Priority == watch.Background {
		p.due[1] = now.Add(reviewDelays[1])
	} else {
		for i, delay := range reviewDelays {
			if i > 0 || p.due[i].IsZero() { // the first one does not wait for the end of a group
				p.due[i] = now.Add(delay)
			}
		}
	}
	p.mu.Unlock()
	p.wake()
}

// forbidden schedules a review because a request of a user was forbidden.
func (p *permissionReviewer) forbidden(user string) {
	now := time.Now()
	p.mu.Lock()
	d := p.checks[user]
	if d == nil {
		d = &accessCheck{}
		p.checks[user] = d
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

// next is the time of the review after a request that is forbidden now.
func (d *accessCheck) next(now time.Time) time.Time {
	soon, later := now.Add(firstCheckDelay), d.last.Add(d.interval)
	if later.After(soon) {
		return later
	}
	return soon
}

// record records a review. The next one comes later if the result is the same as before.
func (d *accessCheck) record(changed bool, now time.Time) {
	d.due, d.last = time.Time{}, now
	switch {
	case changed:
		d.interval = 0
	case d.interval == 0:
		d.interval = minCheckInterval
	default:
		d.interval = min(2*d.interval, maxCheckInterval)
	}
}

func (p *permissionReviewer) wake() {
	select {
	case p.dueChanged <- struct{}{}:
	default:
	}
}

// next is the time until a review is due.
func (p *permissionReviewer) next(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	soonest := now.Add(time.Hour)
	for _, at := range append(p.checksDue(), p.due[:]...) {
		if !at.IsZero() && at.Before(soonest) {
			soonest = at
		}
	}
	return soonest.Sub(now)
}

// checksDue returns the due times of the checks. The caller holds the lock.
func (p *permissionReviewer) checksDue() (all []time.Time) {
	for _, d := range p.checks {
		all = append(all, d.due)
	}
	return all
}

// review makes the reviews that are due.
func (p *permissionReviewer) review(ctx context.Context, now time.Time) {
	past := func(at time.Time) bool { return !at.IsZero() && !at.After(now) }
	p.mu.Lock()
	allUsers := false
	for i, at := range p.due {
		if past(at) {
			allUsers, p.due[i] = true, time.Time{}
		}
	}
	checks := map[string]*accessCheck{}
	for user, d := range p.checks {
		if past(d.due) {
			checks[user] = d
		}
	}
	p.mu.Unlock()
	for user, client := range p.cluster.activeClients() {
		d := checks[user]
		if !allUsers && d == nil {
			continue
		}
		changed, err := client.RefreshPermissions(ctx, d != nil)
		if err != nil && ctx.Err() == nil {
			p.cluster.options.Log.V(1).Info("cannot review permissions", "user", user, "error", err.Error())
		}
		if d != nil {
			p.mu.Lock()
			d.record(changed, now)
			p.mu.Unlock()
		}
		delete(checks, user)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for user := range checks {
		delete(p.checks, user) // the account is not in use any more
	}
}

// watchForbidden returns a copy of the configuration whose forbidden requests schedule reviews
// for a user.
func (p *permissionReviewer) watchForbidden(config *rest.Config, user string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return forbiddenWatcher{p, user, next} })
	return config
}

type forbiddenWatcher struct {
	*permissionReviewer
	user string
	next http.RoundTripper
}

// RoundTrip makes a request. Access reviews themselves are not watched.
func (n forbiddenWatcher) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := n.next.RoundTrip(r)
	if err == nil && response.StatusCode == http.StatusForbidden && !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/") {
		n.forbidden(n.user)
	}
	return response, err
}

// permissionsChanged calls OnPermissionsChange for a user.
func (k *Cluster) permissionsChanged(user string) {
	if k.options.OnPermissionsChange != nil {
		k.options.OnPermissionsChange(user)
	}
}

// activeClients returns the clients to review by user: this program's own, whose name is empty,
// and those of the accounts that watch something.
func (k *Cluster) activeClients() map[string]*kube.Client {
	k.accounts.mu.Lock()
	defer k.accounts.mu.Unlock()
	out := map[string]*kube.Client{"": k.Client}
	for user, a := range k.accounts.byUser {
		if !a.Hub.IsIdle() {
			out[user] = a.Client
		}
	}
	return out
}
