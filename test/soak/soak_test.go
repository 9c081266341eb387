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
