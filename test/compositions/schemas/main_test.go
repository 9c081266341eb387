// Package schemas tests the schemas of the composition dialect on a real API server: those
// of its own kinds, and those of the kinds that definitions serve.
package schemas

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }
