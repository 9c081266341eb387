// Package offline tests that definitions do without an API server what they do with one.
package offline

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	os.Exit(suite.Main(m, server.Options{Settings: server.Settings{Usages: true}}, nil))
}
