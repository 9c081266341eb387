package conformance_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/sdk/managed/conformance"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

var (
	named  = external.Caps{Marked: true}
	tokens = external.Caps{Naming: external.ProviderAssigned, Marked: true, TokenTTL: time.Hour}
	found  = external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true}
	least  = external.Caps{Naming: external.ProviderAssigned}
)

func suite(a *api, breaks string) conformance.Suite[object] {
	return conformance.Suite[object]{
		Kind: func() managed.Kind { return kind(a, breaks) },
		New: func(name string) object {
			m := &managedThing{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}}
			m.Spec.ForProvider.Region = "main"
			return m
		},
		Change:   func(m object) { m.Spec.ForProvider.Public = true },
		Clock:    a.clock,
		Troubles: []conformance.Trouble{a.trouble("the API was down", &a.down), a.trouble("the API lost its answers", &a.mute)},
		Secrets:  []string{password},
	}
}

// TestAClientThatConformsDoes tries one on each kind of external API, with all that the
// suite can say and with as little as it must.
func TestAClientThatConformsDoes(t *testing.T) {
	for name, caps := range map[string]external.Caps{"named by us": named, "by tokens": tokens, "by marks": found, "by nothing": least} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(caps)
			conformance.Run(t, suite(a, ""))
			s := suite(newAPI(caps), "")
			s.Troubles, s.Change, s.Short = nil, nil, true
			conformance.Run(t, s)
		})
	}
}

// TestInRealTime tries one without a clock of the kit's: it waits, though not for long.
func TestInRealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits")
	}
	a := newAPI(tokens)
	a.now, a.slow = time.Now, 30*time.Millisecond
	s := suite(a, "")
	s.Clock, s.Lives = nil, 10
	conformance.Run(t, s)
}

// TestEachBreakIsTold breaks a promise, and demands to be told which.
func TestEachBreakIsTold(t *testing.T) {
	cases := []struct {
		breaks string
		caps   external.Caps
		want   conformance.Promise
		// counted gives the suite a Count.
		counted bool
	}{
		{"creates two", found, conformance.FindsByMark, false},
		{"creates two", named, conformance.BeginRepeats, true},
		{"ignores tokens", tokens, conformance.BeginRepeats, false},
		{"takes an error for nothing there", named, conformance.AbsentIsCertain, false},
		{"mends what it looks at", named, conformance.ReadsChangeNothing, true},
		{"mends what it looks at", named, conformance.FollowsPolicies, false},
		{"touches the object", named, conformance.ObjectIsLeftAlone, false},
		{"calls what it lost rejected", named, conformance.RejectedHadNoEffect, false},
		{"freezes its password", named, conformance.NoSecrets, false},
		{"tells its password", tokens, conformance.NoSecrets, false},
		{"freezes the count of its calls", named, conformance.PrepareIsSame, false},
		{"asks while it prepares", named, conformance.PrepareMakesNoCalls, false},
		{"asks for what the object says by now", tokens, conformance.RequestsAreFrozen, false},
		{"spoils the request", named, conformance.RequestsAreFrozen, false},
		{"ignores the annotation", named, conformance.IdentifyTakesName, false},
		{"names it anew each time", named, conformance.IdentifyIsPure, false},
		{"tells of another", named, conformance.ObservesWhatIsThere, false},
		{"is always content", named, conformance.ObserveTellsDiffers, false},
		{"tells an int", named, conformance.ObservationFits, false},
		{"tells a field that isn't there", named, conformance.ObservationFits, false},
		{"chooses what was chosen", named, conformance.LateInitOfUnset, false},
		{"ignores marks", named, conformance.MarksAreSeen, false},
		{"finds everything", found, conformance.FindsByMark, false},
		{"never deletes", named, conformance.LeavesNothing, false},
		{"forgets what has ended", tokens, conformance.PollRepeats, false},
		{"never ends", tokens, conformance.ComesToRest, false},
	}
	for _, tc := range cases {
		t.Run(tc.breaks, func(t *testing.T) {
			a := newAPI(tc.caps)
			s := suite(a, tc.breaks)
			s.Lives, s.Short = 30, true
			if tc.counted {
				s.Count = func(context.Context, object) (int, error) { return len(a.things), nil }
				s.Snapshot = func(context.Context) (string, error) { return a.dump(), nil }
			}
			report := conformance.Check(t.Context(), s)
			i := slices.IndexFunc(report.Findings, func(f conformance.Finding) bool { return f.Promise == tc.want })
			if i < 0 {
				t.Fatalf("it isn't told that %q, but %v", tc.want, report.Findings)
			}
			text := report.Findings[i].String()
			for _, part := range []string{string(tc.want), report.Findings[i].Where} {
				if !strings.Contains(text, part) {
					t.Errorf("it doesn't say %q:\n%s", part, text)
				}
			}
			t.Logf("%s\n%s", report, text)
		})
	}
}
