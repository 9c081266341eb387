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
	byName    = external.Caps{Marked: true}
	byToken   = external.Caps{Naming: external.ProviderAssigned, Marked: true, TokenTTL: time.Hour}
	byMark    = external.Caps{Naming: external.ProviderAssigned, Marked: true, Findable: true}
	byNothing = external.Caps{Naming: external.ProviderAssigned}
)

func suite(a *api, bug string) conformance.Suite[object] {
	return conformance.Suite[object]{
		Kind: func() managed.Kind { return kind(a, bug) },
		New: func(name string) object {
			m := &managedThing{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}}
			m.Spec.ForProvider.Region = "main"
			return m
		},
		Change:  func(m object) { m.Spec.ForProvider.Public = true },
		Clock:   a.clock,
		Faults:  []conformance.Fault{a.fault("the API was down", &a.isDown), a.fault("the API lost its answers", &a.losesAnswers)},
		Secrets: []string{password},
	}
}

// TestAConformingClientPasses tests a client of each kind of external API, with all fields of
// the suite and with the required ones only.
func TestAConformingClientPasses(t *testing.T) {
	for name, caps := range map[string]external.Caps{
		"identified by name": byName, "identified by token": byToken, "identified by mark": byMark, "not identified": byNothing,
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(caps)
			conformance.Run(t, suite(a, ""))
			s := suite(newAPI(caps), "")
			s.Faults, s.Change, s.Short = nil, nil, true
			conformance.Run(t, s)
		})
	}
}

func TestAConformingClientPassesInRealTime(t *testing.T) {
	if testing.Short() {
		t.Skip("waits in real time")
	}
	a := newAPI(byToken)
	a.now, a.createTime = time.Now, 30*time.Millisecond
	s := suite(a, "")
	s.Clock, s.MaxScenarios = nil, 10
	conformance.Run(t, s)
}

func TestEachBugIsReportedAsABrokenPromise(t *testing.T) {
	cases := []struct {
		bug  string
		caps external.Caps
		want conformance.Promise
		// hasCount: the suite has Count and Snapshot.
		hasCount bool
	}{
		{"creates two", byMark, conformance.FindsByMark, false},
		{"creates two", byName, conformance.BeginIsIdempotent, true},
		{"ignores tokens", byToken, conformance.BeginIsIdempotent, false},
		{"returns Absent for an error", byName, conformance.AbsentIsCertain, false},
		{"updates in Observe", byName, conformance.ReadsChangeNothing, true},
		{"updates in Observe", byName, conformance.FollowsPolicies, false},
		{"modifies the object", byName, conformance.ObjectIsNotModified, false},
		{"returns Rejected for a lost answer", byName, conformance.RejectedHadNoEffect, false},
		{"puts its password into the request", byName, conformance.NoSecrets, false},
		{"returns its password in a message", byToken, conformance.NoSecrets, false},
		{"prepares another request each time", byName, conformance.PrepareIsDeterministic, false},
		{"makes a call in Prepare", byName, conformance.PrepareMakesNoCalls, false},
		{"updates to the current object", byToken, conformance.BeginUsesRequest, false},
		{"modifies the request", byName, conformance.BeginUsesRequest, false},
		{"ignores the annotation", byName, conformance.IdentifyUsesAnnotation, false},
		{"returns another name each time", byName, conformance.IdentifyIsPure, false},
		{"returns another identity", byName, conformance.ObserveReturnsRef, false},
		{"always returns up to date", byName, conformance.ObserveDetectsDrift, false},
		{"returns an int", byName, conformance.ObservationIsValid, false},
		{"returns an unknown field", byName, conformance.ObservationIsValid, false},
		{"late-initializes a set field", byName, conformance.LateInitOnlyUnset, false},
		{"ignores marks", byName, conformance.MarksAreObserved, false},
		{"finds everything", byMark, conformance.FindsByMark, false},
		{"never deletes", byName, conformance.DeletesOrOrphans, false},
		{"forgets completed operations", byToken, conformance.PollIsRepeatable, false},
		{"never completes an operation", byToken, conformance.Converges, false},
	}
	for _, tc := range cases {
		t.Run(tc.bug, func(t *testing.T) {
			a := newAPI(tc.caps)
			s := suite(a, tc.bug)
			s.MaxScenarios, s.Short = 30, true
			if tc.hasCount {
				s.Count = func(context.Context, object) (int, error) { return len(a.things), nil }
				s.Snapshot = func(context.Context) (string, error) { return a.dump(), nil }
			}
			report := conformance.Check(t.Context(), s)
			i := slices.IndexFunc(report.Findings, func(f conformance.Finding) bool { return f.Promise == tc.want })
			if i < 0 {
				t.Fatalf("want a finding about %q, got %v", tc.want, report.Findings)
			}
			text := report.Findings[i].String()
			for _, part := range []string{string(tc.want), report.Findings[i].Scenario} {
				if !strings.Contains(text, part) {
					t.Errorf("the finding does not contain %q:\n%s", part, text)
				}
			}
			t.Logf("%s\n%s", report, text)
		})
	}
}
