package commands

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestDocumentedCommands runs what pages and help texts document, and what needs a cluster. All but those of
// docs/promises.md run in one control plane, which is started as the README says.
func TestDocumentedCommands(t *testing.T) {
	testkit.NeedsServer(t)
	s := newShell(t)
	t.Run("Promises", func(t *testing.T) { promises(t, s) })
	const start = "bin/espalier up --sandbox"
	readme := page(t, "README.md")
	readme.shows(t, start)
	s.startUp(t, start)
	t.Run("Use", func(t *testing.T) { using(t, s) })
	t.Run("Compositions", func(t *testing.T) { compositions(t, s) })
	t.Run("Checks", func(t *testing.T) { checks(t, s) })
	platform(t, s)
	started := startIntervals(t, s)
	t.Run("Plans", func(t *testing.T) { plans(t, s) })
	t.Run("Explanations", func(t *testing.T) { explanations(t, s) })
	t.Run("Rollbacks", func(t *testing.T) { rollbacks(t, s) })
	t.Run("Operations", func(t *testing.T) { operations(t, s) })
	t.Run("GitOps", func(t *testing.T) { gitops(t, s) })
	t.Run("Backups", func(t *testing.T) { backups(t, s) })
	t.Run("Page", func(t *testing.T) { opening(t, s) })
	t.Run("Installation", func(t *testing.T) { installing(t, s) })
	t.Run("Roles", func(t *testing.T) { roles(t, s) })
	t.Run("Intervals", func(t *testing.T) { started.finish(t) })
	t.Run("Uninstallation", func(t *testing.T) { uninstalling(t, s) })
}
