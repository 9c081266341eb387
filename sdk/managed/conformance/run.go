package conformance

import (
	"context"
	"testing"

	"github.com/espalier-dev/espalier/sdk/managed"
)

// Run tests the client of a kind, and fails the test for each promise that is broken. It logs
// how many scenarios ran and how many calls were made.
func Run[M managed.Object](t *testing.T, s Suite[M]) {
	t.Helper()
	s.Short = s.Short || testing.Short()
	report := Check(t.Context(), s)
	t.Log(report)
	for _, f := range report.Findings {
		t.Error(f)
	}
}

// Check tests the client of a kind, and returns the findings.
func Check[M managed.Object](ctx context.Context, s Suite[M]) *Report {
	r, err := newRunner(s)
	if err != nil {
		return &Report{Findings: []Finding{{Promise: SuiteIsValid, Scenario: "Before the first scenario", Detail: err.Error()}}}
	}
	r.checkMethods(ctx)
	r.checkAdoption(ctx)
	r.checkOneOwner(ctx)
	r.checkFaults(ctx)
	r.checkCrashes(ctx)
	return r.report
}
