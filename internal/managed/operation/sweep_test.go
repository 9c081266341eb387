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

// classes are external APIs by what they can do. Safe says that a duplicate can be
// ruled out by them.
var classes = map[string]struct {
	caps  external.Caps
	async time.Duration
	// parks says that a lost creation can't be resolved by the API at all, doubles
	// that a late one can make a second resource, which is found.
	parks, doubles bool
}{
	"named by us, consistent":               {caps: external.Caps{Marked: true, Findable: true}},
	"named by us, no marks":                 {caps: external.Caps{}},
	"named by us, asynchronous":             {caps: external.Caps{Marked: true}, async: 20 * time.Second},
	"named by us, shown late":               {caps: external.Caps{Marked: true, Settle: 5 * time.Second, Reuse: time.Minute}},
	"named by us, asynchronous, shown late": {caps: external.Caps{Settle: 5 * time.Second}, async: 20 * time.Second},
	"named by it, with tokens":              {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: time.Hour, Marked: true}},
	"named by it, with short tokens":        {caps: external.Caps{Naming: external.ProviderAssigned, TokenTTL: time.Second, Marked: true, Findable: true, Settle: 3 * time.Second}, async: 20 * time.Second, doubles: true},
	"named by it, found by mark":            {caps: external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true, Settle: 5 * time.Second}},
	"named by it, asynchronous, found":      {caps: external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true, Settle: 5 * time.Second}, async: 20 * time.Second},
	"named by it, and nothing else":         {caps: external.Caps{Naming: external.ProviderAssigned}, parks: true},
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

// TestTheProcessDiesAfterEveryStep lets a managed resource be created, updated and
// deleted, for every class of API and every legal set of policies, with the process
// dying in its n-th step: a call that it is making arrives and its answer is lost,
// never arrives, or arrives late. What comes of it is what would have without.
func TestTheProcessDiesAfterEveryStep(t *testing.T) {
	points := 0
	for class, c := range classes {
		for _, set := range all {
			for _, call := range []fate{arrives, neverArrives, arrivesLate, throttled} {
				t.Run(fmt.Sprintf("%s/%s/%s", class, set, call), func(t *testing.T) {
					for n := 0; ; n++ {
						l := newLife(c.caps, c.async, policies(set))
						l.crash, l.call = n, call
						if call == throttled {
							l.call, l.throttle = arrives, 2
						}
						reached := l.live(t, set, (c.parks || c.doubles && call == arrivesLate) && n > 0)
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
	t.Logf("%d lives", points)
}

// live plays a whole life and checks what came of it. It reports whether the crash
// was reached.
func (l *life) live(t *testing.T, set string, mayPark bool) (reached bool) {
	t.Helper()
	creates := strings.ContainsAny(set, "*C")
	updates := strings.ContainsAny(set, "*U")
	crashAt := l.crash
	rest := func(when string) bool {
		if err := l.settle(); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		l.elapse(10 * time.Second)
		return mayPark && (l.last.Synced.Reason == resource.CreateUnresolved || l.last.Synced.Reason == resource.Conflict)
	}
	parked := rest("created")
	if creates && !parked {
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
	if creates && !parked {
		l.want, l.resource.Generation = "v2", 2
		rest("updated")
		if got := l.cloud.alive()[0].request == "v2"; got != updates {
			t.Errorf("it is up to date: %t", got)
		}
	}
	l.resource.Deleting = true
	rest("deleted")
	l.check(t, set, parked)
	return crashAt > 0 && l.steps >= crashAt
}

// check looks at what is left in the end.
func (l *life) check(t *testing.T, set string, parked bool) {
	t.Helper()
	creates, deletes := strings.ContainsAny(set, "*C"), strings.ContainsAny(set, "*D")
	if !parked && !l.gone {
		t.Errorf("the managed resource stays: %s %s", l.last.Synced.Reason, l.last.Synced.Message)
	}
	switch n := len(l.cloud.alive()); {
	case parked:
		if n > 1 && l.last.Synced.Reason != resource.Conflict {
			t.Errorf("parked, with %d external resources, and nobody is told", n)
		}
		return
	case deletes && n != 0:
		t.Errorf("%d external resources are left", n)
	case creates && !deletes && n != 1:
		t.Errorf("%d external resources are left in place", n)
	}
	if l.cloud.creations > 1 {
		t.Errorf("%d were created", l.cloud.creations)
	}
	if len(l.cloud.harm) > 0 {
		t.Errorf("harm: %v", l.cloud.harm)
	}
	if l.cloud.calls > 120 {
		t.Errorf("%d calls", l.cloud.calls)
	}
	if l.cloud.changes > 5+l.throttle {
		t.Errorf("%d calls that change something", l.cloud.changes)
	}
}

// TestWhatCallsDontChangeIsNotCalledForAgainAndAgain lets calls end well and have no
// effect that shows, as an API does that rounds what it is told.
func TestWhatCallsDontChangeIsNotCalledForAgainAndAgain(t *testing.T) {
	for _, settle := range []time.Duration{0, 5 * time.Second} {
		for verb, act := range map[external.Verb]func(*life){
			external.Update: func(l *life) { l.want, l.resource.Generation = "v2", 2 },
			external.Delete: func(l *life) { l.resource.Deleting = true },
		} {
			t.Run(fmt.Sprintf("%s, settled after %s", verb, settle), func(t *testing.T) {
				l := newLife(external.Caps{Marked: true, Settle: settle}, 0, policies("*"))
				if err := l.settle(); err != nil {
					t.Fatal(err)
				}
				l.elapse(time.Minute)
				l.cloud.deaf = verb
				act(l)
				before := l.cloud.changes
				for range 3 {
					l.pass()
				}
				if n := l.cloud.changes - before; n < 1 || n > 3 || settle > 0 && n > 1 {
					t.Errorf("%d calls in three passes:\n%s", n, strings.Join(l.log, "\n"))
				}
				if l.last.Err == nil && l.last.After == 0 {
					t.Errorf("nothing brings another pass: %+v", l.last)
				}
			})
		}
	}
}

// TestADeletionAtEveryMomentOfACreation asks for the deletion after each step of the
// creation, with the process living on or dying then: what was begun is found out, and
// undone. Nothing is made only to be deleted, but where that alone tells what there is.
func TestADeletionAtEveryMomentOfACreation(t *testing.T) {
	lives := 0
	for class, c := range classes {
		for _, set := range []string{"OCUD", "OC"} {
			for _, call := range []fate{arrives, neverArrives, arrivesLate} {
				for n := 1; ; n++ {
					l := newLife(c.caps, c.async, policies(set))
					l.crash, l.call = n, call
					died := false
					for range 200 {
						if died = l.pass(); died || l.last.Synced.Reason == resource.ReconcileSuccess {
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
					lives++
					parked := c.parks && l.last.Synced.Reason == resource.CreateUnresolved || c.doubles && l.last.Synced.Reason == resource.Conflict
					l.checkDeleted(t, set, parked)
					if t.Failed() {
						t.Fatalf("%s, %s, %s, deleted after step %d:\n%s", class, set, call, n, strings.Join(l.log, "\n"))
					}
				}
			}
		}
	}
	t.Logf("%d lives", lives)
}

func (l *life) checkDeleted(t *testing.T, set string, parked bool) {
	t.Helper()
	if l.last.Do == operation.Finish && !l.gone && l.last.Ready.Reason != resource.Deleting {
		t.Errorf("it is being deleted, and Ready says %s", l.last.Ready.Reason)
	}
	if !parked && !l.gone {
		t.Errorf("the managed resource stays: %s %s", l.last.Synced.Reason, l.last.Synced.Message)
	}
	if n := len(l.cloud.alive()); n > 0 && !parked && strings.Contains(set, "D") {
		t.Errorf("%d external resources are left", n)
	}
	if l.cloud.creations > 1 && !parked {
		t.Errorf("%d were created", l.cloud.creations)
	}
	if len(l.cloud.harm) > 0 {
		t.Errorf("harm: %v", l.cloud.harm)
	}
}
