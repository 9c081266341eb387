// Package sharding proves that several replicas of the controllers share the work: each object is reconciled
// by one of them at a time, and when a replica stops, dies, is suspended or loses its connection, the others
// take over what it did, and nothing is written, called or forgotten twice.
package sharding

import (
	"io"
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) {
	manager.NewLogger(io.Discard, manager.LogText, 0) // it sets the global logger, before anything logs
	os.Exit(testkit.Main(m))
}
