package operation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/managed/operation"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// classes are external APIs by their capabilities.
var classes = map[string]struct {
	caps  external.Caps
	async time.Duration
	// unresolvable: the outcome of a creation without a response cannot be determined.
	// mayDuplicate: a late call can create a second resource, which is found.
	unresolvable, mayDuplicate bool
}{
	"named by us, consistent":               {caps: external.Caps{Marked: true, Findable: true}},
	"named by us, no marks":                 {caps: external.Caps{}},
	"named by us, asynchronous":             {caps: external.Caps{Marked: true}, async: 20 * time.Second},
	"named by us, shown late":               {caps: external.Caps{Marked: true, Settle: 5 * time.Second, Reuse: time.Minute}},
	"named by us, asynchronous, shown late": {caps: external.Caps{Settle: 5 * time.Second}, async: 20 * time.Second},
	"named by it, with tokens":              {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: time.Hour, Marked: true}},
	"named by it, with short tokens":        {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: time.Second, Marked: true, Findable: true, Settle: 3 * time.Second}, async: 20 * time.Second, mayDuplicate: true},
	"named by it, found by mark":            {caps: external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true, Settle: 5 * time.Second}},
	"named by it, asynchronous, found":      {caps: external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true, Settle: 5 * time.Second}, async: 20 * time.Second},
	"named by it, and nothing else":         {caps: external.Caps{Naming: external.ProviderAssigned}, unresolvable: true},
}

var all = strings.Fields("* O OC OU OD OL OCU OCD OCL OUL OCUD OCUL OCDL OCUDL")

func policies(text string) resource.Policies {
	of := map[rune]resource.Action{
		'*': resource.ActionAll, 'O': resource.ActionObserve, 'C': resource.ActionCreate, 'U': resource.ActionUpdate,
		'D': resource.ActionDelete, 'L': resource.ActionLateInitialize,
	}
	out := resource.Policies{}
	for _, r := range text {
		out = append(out, of[r])
	}
	return out
}

// TestTheProcessCrashesAfterEveryStep creates, updates and deletes a managed resource, for each
// class of external API and each valid set of policies, and crashes in the n-th step. A call in
// that step arrives without its response, never arrives, or arrives late. The result is the same
// as without a crash.
func TestTheProcessCrashesAfterEveryStep(t *testing.T) {
	points := 0
	for class, c := range classes {
		for _, set := range all {
			for _, call := range []callFate{arrives, neverArrives, arrivesLate, throttled} {
				t.Run(fmt.Sprintf("%s/%s/%s", class, set, call), func(t *testing.T) {
					for n := 0; ; n++ {
						l := newSimulation(c.caps, c.async, policies(set))
						l.crash, l.call = n, call
						if call == throttled {
							l.call, l.throttle = arrives, 2
						}
						reached := l.live(t, set, (c.unresolvable || c.mayDuplicate && call == arrivesLate) && n > 0)
						if t.Failed() {
							t.Fatalf("after step %d:\n%s", n, strings.Join(l.log, "\n"))
						}
						points++
						if n > 0 && !reached {
							break
						}
					}
				})
			}
		}
	}
	t.Logf("%d simulations", points)
}

// live creates, updates and deletes the resource, and checks the result. It reports whether the
// crash was reached.
func (l *simulation) live(t *testing.T, set string, mayStayUnresolved bool) (reached bool) {
	t.Helper()
	creates := strings.ContainsAny(set, "*C")
	updates := strings.ContainsAny(set, "*U")
	crashAt := l.crash
	rest := func(when string) bool {
		if err := l.settle(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		l.elapse(10 * time.Second)
		return mayStayUnresolved && (l.last.Synced.Reason == resource.CreateUnresolved || l.last.Synced.Reason == resource.Conflict)
	}
	unresolved := rest("created")
	if creates && !unresolved {
		if n := len(l.cloud.alive()); n != 1 {
			t.Errorf("there are %d external resources", n)
		}
		if l.last.Synced.Reason != resource.ReconcileSuccess {
			t.Errorf("it says %s: %s", l.last.Synced.Reason, l.last.Synced.Message)
		}
		if l.resource.ExternalName == "" || l.stored.Ref != l.resource.ExternalName {
			t.Errorf("the external name is %q, and %q is bound", l.resource.ExternalName, l.stored.Ref)
		}
	}
	if !creates && len(l.cloud.things) > 0 {
		t.Error("something was created")
	}
	if creates && !unresolved {
		l.want, l.resource.Generation = "v2", 2
		rest("updated")
		if got := l.cloud.alive()[0].request == "v2"; got != updates {
			t.Errorf("it is up to date: %t", got)
		}
	}
	l.resource.Deleting = true
	rest("deleted")
	l.check(t, set, unresolved)
	return crashAt > 0 && l.steps >= crashAt
}

// check checks what remains after the deletion.
func (l *simulation) check(t *testing.T, set string, unresolved bool) {
	t.Helper()
	creates, deletes := strings.ContainsAny(set, "*C"), strings.ContainsAny(set, "*D")
	if !unresolved && !l.gone {
		t.Errorf("the managed resource stays: %s %s", l.last.Synced.Reason, l.last.Synced.Message)
	}
	switch n := len(l.cloud.alive()); {
	case unresolved:
		if n > 1 && l.last.Synced.Reason != resource.Conflict {
			t.Errorf("the creation is unresolved with %d external resources, and no conflict is reported", n)
		}
		return
	case deletes && n != 0:
		t.Errorf("%d external resources are left", n)
	case creates && !deletes && n != 1:
		t.Errorf("%d external resources are orphaned", n)
	}
	if l.cloud.creations > 1 {
		t.Errorf("%d were created", l.cloud.creations)
	}
	if len(l.cloud.violations) > 0 {
		t.Errorf("violations: %v", l.cloud.violations)
	}
	if l.cloud.calls > 120 {
		t.Errorf("%d calls", l.cloud.calls)
	}
	if l.cloud.changes > 5+l.throttle {
		t.Errorf("%d calls that change something", l.cloud.changes)
	}
}

// TestCallsWithoutEffectAreNotRepeatedEndlessly has calls succeed without an effect, as in an API
// that rounds values.
func TestCallsWithoutEffectAreNotRepeatedEndlessly(t *testing.T) {
	for _, settle := range []time.Duration{0, 5 * time.Second} {
		for verb, act := range map[external.Verb]func(*simulation){
			external.Update: func(l *simulation) { l.want, l.resource.Generation = "v2", 2 },
			external.Delete: func(l *simulation) { l.resource.Deleting = true },
		} {
			t.Run(fmt.Sprintf("%s, settled after %s", verb, settle), func(t *testing.T) {
				l := newSimulation(external.Caps{Marked: true, Settle: settle}, 0, policies("*"))
				if err := l.settle(); err != nil {
					t.Fatal(err)
				}
				l.elapse(time.Minute)
				l.cloud.ignored = verb
				act(l)
				before := l.cloud.changes
				for range 3 {
					l.reconcile()
				}
				if n := l.cloud.changes - before; n < 1 || n > 3 || settle > 0 && n > 1 {
					t.Errorf("%d calls in three reconciles:\n%s", n, strings.Join(l.log, "\n"))
				}
				if l.last.Err == nil && l.last.After == 0 {
					t.Errorf("no other reconcile is requested: %+v", l.last)
				}
			})
		}
	}
}

// TestADeletionAfterEveryStepOfACreation deletes the managed resource after each step of its
// creation, with and without a crash. The outcome of an open creation is determined and undone.
// Nothing is created only to be deleted, unless that alone shows what exists.
func TestADeletionAfterEveryStepOfACreation(t *testing.T) {
	simulations := 0
	for class, c := range classes {
		for _, set := range []string{"OCUD", "OC"} {
			for _, call := range []callFate{arrives, neverArrives, arrivesLate} {
				for n := 1; ; n++ {
					l := newSimulation(c.caps, c.async, policies(set))
					l.crash, l.call = n, call
					died := false
					for range 200 {
						if died = l.reconcile(); died || l.last.Synced.Reason == resource.ReconcileSuccess {
							break
						}
						l.elapse(max(l.last.After, time.Second))
					}
					if !died {
						break
					}
					l.crash, l.resource.Deleting = 0, true
					if err := l.settle(); err != nil {
						t.Error(err)
					}
					l.elapse(time.Minute)
					simulations++
					unresolved := c.unresolvable && l.last.Synced.Reason == resource.CreateUnresolved || c.mayDuplicate && l.last.Synced.Reason == resource.Conflict
					l.checkDeleted(t, set, unresolved)
					if t.Failed() {
						t.Fatalf("%s, %s, %s, deleted after step %d:\n%s", class, set, call, n, strings.Join(l.log, "\n"))
					}
				}
			}
		}
	}
	t.Logf("%d simulations", simulations)
}

func (l *simulation) checkDeleted(t *testing.T, set string, unresolved bool) {
	t.Helper()
	if l.last.Do == operation.Finish && !l.gone && l.last.Ready.Reason != resource.Deleting {
		t.Errorf("it is being deleted, and the reason of Ready is %s", l.last.Ready.Reason)
	}
	if !unresolved && !l.gone {
		t.Errorf("the managed resource stays: %s %s", l.last.Synced.Reason, l.last.Synced.Message)
	}
	if n := len(l.cloud.alive()); n > 0 && !unresolved && strings.Contains(set, "D") {
		t.Errorf("%d external resources are left", n)
	}
	if l.cloud.creations > 1 && !unresolved {
		t.Errorf("%d were created", l.cloud.creations)
	}
	if len(l.cloud.violations) > 0 {
		t.Errorf("violations: %v", l.cloud.violations)
	}
}
