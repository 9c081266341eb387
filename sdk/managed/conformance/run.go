package conformance

import (
	"context"
	"testing"

	"github.com/espalier-dev/espalier/sdk/managed"
)

// Run tries the client of a kind, and fails the test for each promise that isn't kept.
// It logs how many lives were played and how many calls were made.
func Run[M managed.Object](t *testing.T, s Suite[M]) {
	t.Helper()
	s.Short = s.Short || testing.Short()
	report := Check(t.Context(), s)
	t.Log(report)
	for _, f := range report.Findings {
		t.Error(f)
	}
}

// Check tries the client of a kind, and reports.
func Check[M managed.Object](ctx context.Context, s Suite[M]) *Report {
	tr, err := newTrial(s)
	if err != nil {
		return &Report{Findings: []Finding{{Promise: SuiteMakesSense, Where: "Before anything was tried", Detail: err.Error()}}}
	}
	tr.promises(ctx)
	tr.adoption(ctx)
	tr.twins(ctx)
	tr.troubles(ctx)
	tr.deaths(ctx)
	return tr.report
}
