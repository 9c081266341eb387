package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestABriefSoak is a run of one round, with a restart of the controllers.
func TestABriefSoak(t *testing.T) {
	testkit.NeedsServer(t)
	log := filepath.Join(t.TempDir(), "soak.log")
	if err := run(t.Context(), options{seed: 1, steps: 60, pause: 100 * time.Millisecond, patience: testkit.Timeout, log: log, brief: true}); err != nil {
		t.Fatal(err)
	}
}

// TestABriefSoakThroughAProxy has the faults that cost little time. All of them are for make soak.
func TestABriefSoakThroughAProxy(t *testing.T) {
	testkit.NeedsServer(t)
	faults := []string{refusing, losing, cutting, goaway, smallPages, noWatchLists, cutWatchList, noBookmarks, tooOld, twice, notFound}
	log := filepath.Join(t.TempDir(), "soak.log")
	if err := run(t.Context(), options{seed: 1, steps: 60, pause: 100 * time.Millisecond, patience: testkit.Timeout, log: log, brief: true, faults: faults}); err != nil {
		t.Fatal(err)
	}
}
