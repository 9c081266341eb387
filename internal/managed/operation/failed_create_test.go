package operation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// tokens are APIs that recognize tokens for a long time, and can search by mark.
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

// TestACorrectedCreationIsANewOperation has a creation fail because of its request. Once it is
// certain that nothing was created, the next creation is a new operation with the corrected
// request.
func TestACorrectedCreationIsANewOperation(t *testing.T) {
	for class, c := range tokens {
		for _, leaves := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, leaves something: %t", class, leaves), func(t *testing.T) {
				l := newSimulation(c.caps, c.async, policies("*"))
				l.cloud.invalid, l.cloud.leaves, l.cloud.early = "bad", leaves, strings.Contains(class, "early")
				l.want = "bad"
				for range 5 {
					l.reconcile()
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
				if l.cloud.creations != 1 || len(l.cloud.violations) > 0 {
					t.Errorf("%d were made, harm: %v", l.cloud.creations, l.cloud.violations)
				}
			})
		}
	}
}

// TestAFailedCreationLeadsToOneResource ends the process in each step of a creation that fails,
// permanently or once, with its call in flight.
func TestAFailedCreationLeadsToOneResource(t *testing.T) {
	lives := 0
	for class, c := range tokens {
		for _, call := range []callFate{arrives, neverArrives, arrivesLate, throttled} {
			for _, leaves := range []bool{false, true} {
				for _, once := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/leaves something: %t, for once: %t", class, call, leaves, once), func(t *testing.T) {
						for n := 1; n < 60; n++ {
							l := newSimulation(c.caps, c.async, policies("*"))
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
								if l.reconcile() {
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
							if there := l.cloud.alive(); len(there) != 1 || there[0].request != "v1" || l.cloud.creations != 1 || len(l.cloud.violations) > 0 {
								t.Fatalf("after step %d there are %d, of %d; harm: %v; it says %s %s\n%s", n, len(there), l.cloud.creations, l.cloud.violations, l.last.Synced.Reason, l.last.Synced.Message, strings.Join(l.log, "\n"))
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

// TestAFailedCreationWithUnknownEffectRepeatsItsRequest has external APIs that cannot show what a
// failed creation has created, and a failure of a repeated call.
func TestAFailedCreationWithUnknownEffectRepeatsItsRequest(t *testing.T) {
	cases := map[string]struct {
		caps     external.Caps
		repeated bool
	}{
		"no search by mark":                             {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: time.Hour, Marked: true}},
		"marks are set after the creation":              {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: time.Hour, Findable: true}},
		"another call of the creation may be in flight": {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: time.Hour, Marked: true, Findable: true}, repeated: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := newSimulation(tc.caps, 0, policies("*"))
			l.want, l.cloud.invalid = "bad", "bad"
			if tc.repeated {
				l.crash, l.call = 7, neverArrives
				if !l.reconcile() || l.stored.Operation == nil {
					t.Fatalf("it didn't die calling: %v", l.log)
				}
				l.crash = 0
			}
			for range 5 {
				l.reconcile()
				l.elapse(time.Second)
			}
			token := l.stored.Operation.Token
			l.want, l.resource.Generation = "v1", 2
			for range 5 {
				l.reconcile()
				l.elapse(time.Second)
			}
			if op := l.stored.Operation; op == nil || op.Token != token || string(op.Request) != "bad" {
				t.Errorf("it is asked for in other words: %+v", op)
			}
		})
	}
}

// TestARepeatedCallIsVisibleLateAsWell repeats a call long after the first one, and loses its
// response: the time until its effect is visible counts from the repetition.
func TestARepeatedCallIsVisibleLateAsWell(t *testing.T) {
	for class, ttl := range map[string]time.Duration{"its token holds": time.Hour, "its token has run out": time.Minute} {
		for _, deleted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, deleted: %t", class, deleted), func(t *testing.T) {
				l := newSimulation(external.Caps{Naming: external.ProviderAssigned, TokenTTL: ttl, Marked: true, Findable: true, Settle: 20 * time.Second}, 0, policies("*"))
				l.crash, l.call = 7, neverArrives
				if !l.reconcile() || l.stored.Operation == nil {
					t.Fatalf("it didn't die calling: %v", l.log)
				}
				l.elapse(55 * time.Second)
				l.crash, l.call = l.steps+2, arrives
				if !l.reconcile() || l.cloud.creations != 1 {
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
