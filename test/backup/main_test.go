// Package backup moves control planes from one API server to another, and takes
// Bindings away, with the sandbox cloud behind them, and checks whether anything in the
// cloud was made twice, or lost.
package backup

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // for who writes in v1, as the tests do
	os.Exit(testkit.Main(m))
}
