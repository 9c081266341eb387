package operation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// tokens are APIs that know a creation again by its token, for long, and tell what
// carries a mark.
var tokens = map[string]struct {
	caps  external.Caps
	async time.Duration
}{
	"at once":                    {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: 24 * time.Hour, Marked: true, Findable: true}},
	"asynchronous":               {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: 24 * time.Hour, Marked: true, Findable: true}, async: 20 * time.Second},
	"shown late":                 {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: 24 * time.Hour, Marked: true, Findable: true, Settle: 5 * time.Second}},
	"asynchronous, shown late":   {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: 24 * time.Hour, Marked: true, Findable: true, Settle: 5 * time.Second}, async: 20 * time.Second},
	"named by us":                {caps: external.Caps{Marked: true}},
	"named by us, shown late":    {caps: external.Caps{Marked: true, Settle: 5 * time.Second}, async: 20 * time.Second},
	"its identity is told early": {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: 24 * time.Hour, Marked: true, Settle: 5 * time.Second}, async: 20 * time.Second},
}

// TestWhatIsMendedIsTriedAtOnce is about a creation that the API takes on and fails,
// because of what it was asked: once nothing can be left of it, it is asked for in other
// words, and as another.
func TestWhatIsMendedIsTriedAtOnce(t *testing.T) {
	for class, c := range tokens {
		for _, leaves := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, leaves something: %t", class, leaves), func(t *testing.T) {
				l := newLife(c.caps, c.async, policies("*"))
				l.cloud.invalid, l.cloud.leaves, l.cloud.early = "bad", leaves, strings.Contains(class, "early")
				l.want = "bad"
				for range 5 {
					l.pass()
					l.elapse(max(l.last.After, time.Second))
				}
				l.elapse(10 * time.Second)
				l.want, l.resource.Generation = "v1", 2
				began := l.now
				if err := l.settle(); err != nil {
					t.Fatal(err)
				}
				if took := l.now.Sub(began); took > 3*time.Minute {
					t.Errorf("it takes %s", took)
				}
				l.elapse(time.Minute)
				if err := l.settle(); err != nil {
					t.Fatal(err)
				}
				if there := l.cloud.alive(); len(there) != 1 || there[0].request != "v1" || l.last.Synced.Reason != resource.ReconcileSuccess {
					t.Errorf("there are %d, and it says %s: %s\n%s", len(there), l.last.Synced.Reason, l.last.Synced.Message, strings.Join(l.log, "\n"))
				}
				if l.cloud.creations != 1 || len(l.cloud.harm) > 0 {
					t.Errorf("%d were made, harm: %v", l.cloud.creations, l.cloud.harm)
				}
			})
		}
	}
}

// TestNoSecondOneComesOfAFailure lets the process die in each step of a creation that
// fails, by what it was asked or for once, with the call that it was making on its way:
// that another was refused says nothing of it.
func TestNoSecondOneComesOfAFailure(t *testing.T) {
	lives := 0
	for class, c := range tokens {
		for _, call := range []fate{arrives, neverArrives, arrivesLate, throttled} {
			for _, leaves := range []bool{false, true} {
				for _, once := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/leaves something: %t, for once: %t", class, call, leaves, once), func(t *testing.T) {
						for n := 1; n < 60; n++ {
							l := newLife(c.caps, c.async, policies("*"))
							l.cloud.leaves, l.cloud.early = leaves, strings.Contains(class, "early")
							l.want = "bad"
							if l.cloud.invalid = "bad"; once {
								l.want, l.cloud.invalid, l.cloud.fails = "v1", "", 2
							}
							l.crash, l.call = n, call
							if call == throttled {
								l.call, l.throttle = arrives, 2
							}
							for range 20 {
								if l.pass() {
									l.cloud.busy, l.crash = l.throttle, 0
								}
								l.elapse(max(l.last.After, time.Second))
							}
							l.want, l.resource.Generation = "v1", 2
							_ = l.settle()
							l.elapse(25 * time.Hour) // where it can't be told, the token runs out
							for range 2 {
								if err := l.settle(); err != nil {
									t.Fatalf("after step %d: %v\n%s", n, err, strings.Join(l.log[max(0, len(l.log)-50):], "\n"))
								}
								l.elapse(time.Hour)
							}
							if there := l.cloud.alive(); len(there) != 1 || there[0].request != "v1" || l.cloud.creations != 1 || len(l.cloud.harm) > 0 {
								t.Fatalf("after step %d there are %d, of %d; harm: %v; it says %s %s\n%s", n, len(there), l.cloud.creations, l.cloud.harm, l.last.Synced.Reason, l.last.Synced.Message, strings.Join(l.log, "\n"))
							}
							lives++
							if l.crash != 0 {
								break
							}
						}
					})
				}
			}
		}
	}
	t.Logf("%d lives", lives)
}

// TestWhatCannotBeToldIsAskedForInTheSameWords is about APIs that can't tell what a
// failed creation has left, and about a failure of a call that was made twice.
func TestWhatCannotBeToldIsAskedForInTheSameWords(t *testing.T) {
	cases := map[string]struct {
		caps     external.Caps
		repeated bool
	}{
		"nothing tells of marks":               {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: time.Hour, Marked: true}},
		"marks are put on later":               {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: time.Hour, Findable: true}},
		"another call of it may be on its way": {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: time.Hour, Marked: true, Findable: true}, repeated: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newLife(tc.caps, 0, policies("*"))
			l.want, l.cloud.invalid = "bad", "bad"
			if tc.repeated {
				l.crash, l.call = 7, neverArrives
				if !l.pass() || l.stored.Operation == nil {
					t.Fatalf("it didn't die calling: %v", l.log)
				}
				l.crash = 0
			}
			for range 5 {
				l.pass()
				l.elapse(time.Second)
			}
			token := l.stored.Operation.Token
			l.want, l.resource.Generation = "v1", 2
			for range 5 {
				l.pass()
				l.elapse(time.Second)
			}
			if op := l.stored.Operation; op == nil || op.Token != token || string(op.Request) != "bad" {
				t.Errorf("it is asked for in other words: %+v", op)
			}
		})
	}
}

// TestARepetitionTakesItsTimeAsWell is about a call that was made again long after the
// first, and arrived without an answer: what it has made doesn't show yet, however long
// ago the creation was begun.
func TestARepetitionTakesItsTimeAsWell(t *testing.T) {
	for class, ttl := range map[string]time.Duration{"its token holds": time.Hour, "its token has run out": time.Minute} {
		for _, deleted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deleted: %t", class, deleted), func(t *testing.T) {
				l := newLife(external.Caps{Naming: external.ProviderAssigned, TokenTTL: ttl, Marked: true, Findable: true, Settle: 20 * time.Second}, 0, policies("*"))
				l.crash, l.call = 7, neverArrives
				if !l.pass() || l.stored.Operation == nil {
					t.Fatalf("it didn't die calling: %v", l.log)
				}
				l.elapse(55 * time.Second)
				l.crash, l.call = l.steps+2, arrives
				if !l.pass() || l.cloud.creations != 1 {
					t.Fatalf("it didn't die calling again: %v", l.log)
				}
				l.elapse(6 * time.Second)
				l.crash, l.cloud.busy, l.resource.Deleting = 0, 1, deleted
				for range 3 {
					if err := l.settle(); err != nil {
						t.Fatal(err)
					}
					l.elapse(time.Minute)
				}
				if left := len(l.cloud.alive()); l.cloud.creations != 1 || (left == 0) != deleted {
					t.Errorf("%d were made, and %d are left:\n%s", l.cloud.creations, left, strings.Join(l.log, "\n"))
				}
			})
		}
	}
}
