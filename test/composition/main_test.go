// Package composition tests the composition dialect as its users meet it, on a real API
// server.
package composition

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }
