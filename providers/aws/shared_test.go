package aws

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/aws/metrics"
)

// ticking returns accounts whose clock goes on by a second with each use.
func ticking() *accounts {
	now := time.Now()
	return &accounts{options: Options{Now: func() time.Time { now = now.Add(time.Second); return now }}}
}

// TestConnectionsOfOneAccountKeepTheStateOfOthers has one account with more connections than are kept.
func TestConnectionsOfOneAccountKeepTheStateOfOthers(t *testing.T) {
	a := ticking()
	team, other, attacker := accountKey{account: "1"}, connection{account: accountKey{account: "2"}}, accountKey{account: "3"}
	limiter, _ := a.state(connection{account: team})
	_, used := a.state(other)
	for i := range 2 * maxShared {
		a.state(connection{account: attacker, role: fmt.Sprint(i)})
		if _, again := a.state(other); again != used {
			t.Fatal("reads that are in use are lost")
		}
		if i%1000 == 0 {
			if again, _ := a.state(connection{account: team}); again != limiter {
				t.Fatal("the limiter of another account is lost")
			}
		}
	}
	if len(a.known.reads.all) > maxShared || len(a.known.limiters.all) > maxShared {
		t.Errorf("%d reads and %d limiters are kept", len(a.known.reads.all), len(a.known.limiters.all))
	}
}

// TestEndpointsOfNamespacesDisplaceNoAccounts has an endpoint that names another account with each answer.
func TestEndpointsOfNamespacesDisplaceNoAccounts(t *testing.T) {
	a := ticking()
	team := connection{account: accountKey{account: "123456789012", region: "eu-central-1"}}
	limiter, reads := a.state(team)
	for i := range 2 * maxShared {
		a.state(connection{account: accountKey{untrusted: "attacker", account: fmt.Sprint(i)}})
	}
	if again, used := a.state(team); again != limiter || used != reads {
		t.Error("the state of an account is lost")
	}
	if n := len(a.claimed.limiters.all); n > maxShared {
		t.Errorf("%d limiters are kept", n)
	}
	shown := 0
	for _, limit := range a.limits() {
		if limit.Account != "" {
			shown++
		}
	}
	if shown != 1 {
		t.Errorf("metrics show %d accounts; one is known", shown)
	}
}

// TestUnusedStateIsRemoved has two accounts, one of which is used no more.
func TestUnusedStateIsRemoved(t *testing.T) {
	now := time.Now()
	a := &accounts{options: Options{Now: func() time.Time { return now }}}
	unused, usedAccount := connection{account: accountKey{account: "1", region: "r"}}, connection{account: accountKey{account: "2", region: "r"}}
	a.state(unused)
	limiter, reads := a.state(usedAccount)
	for range 4 {
		now = now.Add(keepUnused / 3)
		if l, r := a.state(usedAccount); l != limiter || r != reads {
			t.Fatal("state that is in use is lost")
		}
	}
	if diff := cmp.Diff([]metrics.Limit{{Account: "2", Region: "r", Rate: limiter.State().Rate}}, a.limits()); diff != "" {
		t.Errorf("limiters (-want +got):\n%s", diff)
	}
	if n := len(a.known.reads.all); n != 1 {
		t.Errorf("%d reads are kept", n)
	}
}
