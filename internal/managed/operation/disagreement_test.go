package operation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestWhatIsFoundAndCannotBeSeenIsNotMadeAgain is about an API whose search shows what
// a look denies: because the two name things differently, say, or because one of them
// is far behind. Which of them is right can't be told from here.
func TestWhatIsFoundAndCannotBeSeenIsNotMadeAgain(t *testing.T) {
	lives := map[string]func(*life){
		"from its creation on":         func(*life) {},
		"once it was bound":            func(l *life) { l.cloud.denies = false },
		"once the binding was lost":    func(l *life) { l.cloud.denies = false },
		"after the creation was lost":  func(l *life) { l.crash = 8 },
		"after it was refused at once": func(l *life) { l.cloud.busy = 1 },
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
				l := newLife(c.caps, c.async, policies("*"))
				l.cloud.denies = true
				prepare(l)
				if !l.cloud.denies {
					if err := l.settle(); err != nil {
						t.Fatal(err)
					}
					l.elapse(time.Minute)
					l.cloud.denies = true
				}
				if strings.Contains(name, "binding") {
					l.stored, l.resource.ExternalName = nil, ""
				}
				l.parks(t, c.caps)
				if l.last.Synced.Reason != resource.Disagreement || !strings.Contains(l.last.Synced.Message, string(l.cloud.things[0].ref)) {
					t.Errorf("it says %s: %s", l.last.Synced.Reason, l.last.Synced.Message)
				}

				t.Log("it can be seen again")
				l.cloud.denies = false
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

// TestWhatIsFoundNoMoreIsMadeAnew is about the same once the search has come to agree
// with the look.
func TestWhatIsFoundNoMoreIsMadeAnew(t *testing.T) {
	l := newLife(external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true}, 0, policies("*"))
	if err := l.settle(); err != nil {
		t.Fatal(err)
	}
	l.cloud.denies = true
	l.parks(t, l.caps)
	l.cloud.things, l.cloud.denies = nil, false
	if err := l.settle(); err != nil {
		t.Fatal(err)
	}
	if len(l.cloud.alive()) != 1 || l.last.Synced.Reason != resource.ReconcileSuccess {
		t.Errorf("there are %d, and it says %s: %s", len(l.cloud.alive()), l.last.Synced.Reason, l.last.Synced.Message)
	}
}

// parks lets passes go by until nothing comes of them any more, and checks what they
// cost: nothing is made, and nothing is stored by those at rest.
func (l *life) parks(t *testing.T, caps external.Caps) {
	t.Helper()
	pass := func() {
		l.log = nil
		if l.pass() {
			l.crash = 0
		}
		if len(l.log) > 30 {
			t.Fatalf("one pass takes %d steps:\n%s", len(l.log), strings.Join(l.log, "\n"))
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
			t.Errorf("it isn't repeated with growing delay: %+v", l.last)
		}
		if l.last.Synced != said || fmt.Sprintf("%+v", l.stored) != stored || l.cloud.calls-calls > 2 {
			t.Errorf("it says %+v, and said %+v; %d calls were made:\n%s", l.last.Synced, said, l.cloud.calls-calls, strings.Join(l.log, "\n"))
		}
	}
	if l.cloud.creations != 1 {
		t.Errorf("%d were made", l.cloud.creations)
	}
}
