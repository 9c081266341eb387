// Package integration tests the engine as its users meet it: on a real API
// server, through what is applied and what then shows.
package integration

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/test/suite"
)

func TestMain(m *testing.M) {
	os.Exit(suite.Main(m, server.Options{Propagated: upward.note}, nil))
}

var (
	begin     = suite.Begin
	rgd       = suite.RGD
	rg        = suite.RG
	crdKind   = suite.CRD
	configMap = suite.ConfigMap
)
