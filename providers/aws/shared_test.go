package aws

import (
	"fmt"
	"testing"
	"time"
)

// TestConnectionsOfOneAccountKeepTheStateOfOthers has one account with more connections than are kept.
func TestConnectionsOfOneAccountKeepTheStateOfOthers(t *testing.T) {
	now := time.Now()
	a := &accounts{options: Options{Now: func() time.Time { now = now.Add(time.Second); return now }}}
	limiter, _ := a.state("team/1/r", readsKey{scope: "team/1/r"})
	_, used := a.state("other/1/r", readsKey{scope: "other/1/r"})
	for i := range 2 * maxShared {
		a.state("attacker/1/r", readsKey{"attacker/1/r", fmt.Sprint(i), nil})
		if _, again := a.state("other/1/r", readsKey{scope: "other/1/r"}); again != used {
			t.Fatal("reads that are in use are lost")
		}
	}
	if again, _ := a.state("team/1/r", readsKey{scope: "team/1/r"}); again != limiter {
		t.Error("the limiter of another account is lost")
	}
	if len(a.reads.all) > maxShared || len(a.limiters.all) > maxShared {
		t.Errorf("%d reads and %d limiters are kept", len(a.reads.all), len(a.limiters.all))
	}
}
