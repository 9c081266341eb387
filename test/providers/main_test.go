// Package providers tests managed resources as their users meet them: on a real API
// server, with the sandbox cloud behind them.
package providers

import (
	"os"
	"testing"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
	sdk "github.com/espalier-dev/espalier/sdk/managed"
)

// sky is the cloud of all tests of the package.
var sky = cloud.New(cloud.Options{})

func TestMain(m *testing.M) {
	os.Exit(suite.Main(m, server.Options{Providers: []sdk.Provider{sandbox.Provider(sky), shapesProvider()}}, nil))
}

var (
	bucket  = v1alpha1.GroupVersion.WithKind("Bucket")
	binding = espalier.GroupVersion.WithKind(espalier.BindingKind)
)
