package operation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestAFoundResourceThatObserveDoesNotReturnIsNotRecreated has an external API that finds a
// resource by a search, and reports it as absent in Observe: both use different identities, say,
// or one of them shows an old state.
func TestAFoundResourceThatObserveDoesNotReturnIsNotRecreated(t *testing.T) {
	lives := map[string]func(*simulation){
		"since the creation":                          func(*simulation) {},
		"after it was bound":                          func(l *simulation) { l.cloud.hidden = false },
		"after the binding was lost":                  func(l *simulation) { l.cloud.hidden = false },
		"after the response to the creation was lost": func(l *simulation) { l.crash = 8 },
		"after the creation was rejected":             func(l *simulation) { l.cloud.busy = 1 },
	}
	for class, c := range classes {
		if !c.caps.Findable {
			continue
		}
		for name, prepare := range lives {
			if c.caps.Naming == external.CallerAssigned && (strings.HasPrefix(name, "after") || strings.Contains(name, "binding")) {
				continue // what is asked for again is refused there, since its name is taken
			}
			t.Run(class+"/"+name, func(t *testing.T) {
				l := newSimulation(c.caps, c.async, policies("*"))
				l.cloud.hidden = true
				prepare(l)
				if !l.cloud.hidden {
					if err := l.settle(); err != nil {
						t.Fatal(err)
					}
					l.elapse(time.Minute)
					l.cloud.hidden = true
				}
				if strings.Contains(name, "binding") {
					l.stored, l.resource.ExternalName = nil, ""
				}
				l.awaitStable(t, c.caps)
				if l.last.Synced.Reason != resource.Disagreement || !strings.Contains(l.last.Synced.Message, string(l.cloud.things[0].ref)) {
					t.Errorf("it says %s: %s", l.last.Synced.Reason, l.last.Synced.Message)
				}

				t.Log("it can be seen again")
				l.cloud.hidden = false
				if err := l.settle(); err != nil {
					t.Fatal(err)
				}
				if l.last.Synced.Reason != resource.ReconcileSuccess || l.cloud.creations != 1 {
					t.Errorf("%d were made, and it says %s: %s", l.cloud.creations, l.last.Synced.Reason, l.last.Synced.Message)
				}
			})
		}
	}
}

// TestAResourceIsRecreatedOnceTheSearchDoesNotFindIt has Observe and the search agree again that
// the resource is absent.
func TestAResourceIsRecreatedOnceTheSearchDoesNotFindIt(t *testing.T) {
	l := newSimulation(external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true}, 0, policies("*"))
	if err := l.settle(); err != nil {
		t.Fatal(err)
	}
	l.cloud.hidden = true
	l.awaitStable(t, l.caps)
	l.cloud.things, l.cloud.hidden = nil, false
	if err := l.settle(); err != nil {
		t.Fatal(err)
	}
	if len(l.cloud.alive()) != 1 || l.last.Synced.Reason != resource.ReconcileSuccess {
		t.Errorf("there are %d, and it says %s: %s", len(l.cloud.alive()), l.last.Synced.Reason, l.last.Synced.Message)
	}
}

// awaitStable reconciles until the result stays the same, and checks that nothing is created, and
// that the last reconciles store nothing.
func (l *simulation) awaitStable(t *testing.T, caps external.Caps) {
	t.Helper()
	pass := func() {
		l.log = nil
		if l.reconcile() {
			l.crash = 0
		}
		if len(l.log) > 30 {
			t.Fatalf("one reconcile takes %d steps:\n%s", len(l.log), strings.Join(l.log, "\n"))
		}
		l.elapse(max(l.last.After, time.Second))
	}
	for range 60 {
		pass()
	}
	l.elapse(time.Minute + 4*caps.Settle)
	pass()
	said, stored := l.last.Synced, fmt.Sprintf("%+v", l.stored)
	for range 5 {
		calls := l.cloud.calls
		pass()
		if l.last.Err == nil {
			t.Errorf("no backoff is requested: %+v", l.last)
		}
		if l.last.Synced != said || fmt.Sprintf("%+v", l.stored) != stored || l.cloud.calls-calls > 2 {
			t.Errorf("it says %+v, and said %+v; %d calls were made:\n%s", l.last.Synced, said, l.cloud.calls-calls, strings.Join(l.log, "\n"))
		}
	}
	if l.cloud.creations != 1 {
		t.Errorf("%d were made", l.cloud.creations)
	}
}
