// Package plan tests that what 'espalier plan' announces is what then happens.
package plan

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	os.Exit(suite.Main(m, server.Options{Settings: server.Settings{MoreColumns: true, Usages: true}}, nil))
}
