// Package kinds tests the CustomResourceDefinitions of AWS's resource types on a real API server: that it accepts
// them, and which objects it then accepts. No controller runs, and nothing calls AWS.
package kinds

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }
