package cluster

import (
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
)

// TestWhatIsForbiddenIsAskedLaterAndLater has requests forbidden all the time.
func TestWhatIsForbiddenIsAskedLaterAndLater(t *testing.T) {
	now := time.Unix(1000, 0)
	var d doubt
	ask := func(changed bool, want time.Duration) {
		t.Helper()
		at := d.next(now)
		if got := at.Sub(now); got != want {
			t.Errorf("it is asked after %s, not %s", got, want)
		}
		now = at
		d.settled(changed, now)
	}
	ask(false, soonDoubt)
	ask(false, firstDoubt)
	ask(false, 2*firstDoubt)
	for range 10 {
		now = d.next(now)
		d.settled(false, now)
	}
	ask(false, seldomDoubt)
	ask(true, seldomDoubt)
	ask(false, soonDoubt) // what is allowed is something else now
	now = now.Add(time.Hour)
	ask(false, soonDoubt) // the first for long
}

// TestRolesThatChangeAreReviewedSoonAndOnceMore tells of roles, and looks when what they grant
// is reviewed.
func TestRolesThatChangeAreReviewedSoonAndOnceMore(t *testing.T) {
	p := newPermissions(&Cluster{Client: kube.NewClient(nil, nil)}) // nobody has asked it anything
	role := object.Key{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "a"}
	due := func(at time.Time, least, most time.Duration) {
		t.Helper()
		if got := p.next(at); got < least || got > most {
			t.Errorf("it is due after %s, not %s to %s", got, least, most)
		}
	}
	p.changed(role, watch.Cause{Priority: watch.Background}) // was there already
	p.changed(object.Key{Kind: role.Kind}, watch.Cause{Priority: watch.Urgent})
	due(time.Now(), 59*time.Minute, time.Hour)
	p.changed(role, watch.Cause{Priority: watch.Urgent})
	now := time.Now()
	due(now, 0, soonReview)
	p.review(t.Context(), now.Add(soonReview))
	due(now, soonReview+1, secondReview)
	p.review(t.Context(), now.Add(secondReview))
	due(now, 59*time.Minute, time.Hour)
	p.refused("jane")
	p.refused("jane")
	due(time.Now(), 0, soonDoubt)
	p.review(t.Context(), time.Now().Add(soonDoubt)) // nobody acts as her any more
	due(time.Now(), 59*time.Minute, time.Hour)
}
