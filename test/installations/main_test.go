// Package installations proves that several installations of the controllers divide a cluster: by namespaces, or by the
// labels of definitions. Each object is written by one of them, and two that overlap do not run side by side.
package installations

import (
	"io"
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) {
	manager.NewLogger(io.Discard, manager.LogText, 0) // it sets the global logger, before anything logs
	os.Exit(testkit.Main(m))
}
