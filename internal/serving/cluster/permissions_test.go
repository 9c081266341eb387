package cluster

import (
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// TestAccessChecksBackOffWhileResultsStayTheSame has requests forbidden all the time.
func TestAccessChecksBackOffWhileResultsStayTheSame(t *testing.T) {
	now := time.Unix(1000, 0)
	var d accessCheck
	ask := func(changed bool, want time.Duration) {
		t.Helper()
		at := d.next(now)
		if got := at.Sub(now); got != want {
			t.Errorf("the review is due after %s, not %s", got, want)
		}
		now = at
		d.record(changed, now)
	}
	ask(false, firstCheckDelay)
	ask(false, minCheckInterval)
	ask(false, 2*minCheckInterval)
	for range 10 {
		now = d.next(now)
		d.record(false, now)
	}
	ask(false, maxCheckInterval)
	ask(true, maxCheckInterval)
	ask(false, firstCheckDelay) // what is allowed is something else now
	now = now.Add(time.Hour)
	ask(false, firstCheckDelay) // the first for long
}

// TestAChangeOfRolesIsReviewedRepeatedly tells of roles, and looks when what they grant
// is reviewed.
func TestAChangeOfRolesIsReviewedRepeatedly(t *testing.T) {
	p := newPermissionReviewer(&Cluster{Client: kube.NewClient(nil, nil)}) // nobody has asked it anything
	role := object.Key{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "a"}
	due := func(at time.Time, least, most time.Duration) {
		t.Helper()
		if got := p.next(at); got < least || got > most {
			t.Errorf("the review is due after %s, not %s to %s", got, least, most)
		}
	}
	p.rbacChanged(object.Key{Kind: role.Kind}, watch.Cause{Priority: watch.Urgent})
	due(time.Now(), 59*time.Minute, time.Hour)
	p.rbacChanged(role, watch.Cause{Priority: watch.Background}) // is in the first list, perhaps changed since the first review
	now := time.Now()
	due(now, reviewDelays[0]+1, reviewDelays[1])
	p.review(t.Context(), now.Add(reviewDelays[1]))
	due(now, 59*time.Minute, time.Hour)
	p.rbacChanged(role, watch.Cause{Priority: watch.Urgent})
	now = time.Now()
	before := time.Duration(-1)
	for _, delay := range reviewDelays {
		due(now, before+1, delay)
		p.review(t.Context(), now.Add(delay))
		before = delay
	}
	due(now, 59*time.Minute, time.Hour)
	p.forbidden("jane")
	p.forbidden("jane")
	due(time.Now(), 0, firstCheckDelay)
	p.review(t.Context(), time.Now().Add(firstCheckDelay)) // nobody acts as her any more
	due(time.Now(), 59*time.Minute, time.Hour)
}
