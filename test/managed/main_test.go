// Package managed tests managed resources as their users meet them: on a real API
// server, with the sandbox cloud behind them.
package managed

import (
	"fmt"
	"os"
	"testing"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
	sdk "github.com/espalier-dev/espalier/sdk/managed"
	"github.com/espalier-dev/espalier/test/suite"
)

// sky is the cloud of all tests of the package.
var sky *cloud.Cloud

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "espalier-sandbox-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if sky, err = cloud.Open(dir, cloud.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer sky.Close()
	return suite.Main(m, server.Options{Providers: []sdk.Provider{sandbox.Provider(sky)}}, nil)
}

var (
	bucket  = v1alpha1.GroupVersion.WithKind("Bucket")
	binding = espalier.GroupVersion.WithKind(espalier.BindingKind)
)
