// Package backup proves that exports, imports and lost Bindings duplicate and lose nothing in the
// cloud: tests move control planes from one API server to another, with the sandbox cloud.
package backup

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // of deprecated versions, which the tests use
	os.Exit(testkit.Main(m))
}
