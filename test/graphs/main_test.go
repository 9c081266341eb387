// Package graphs tests Graphs as their authors meet them, on a real API server.
package graphs

import (
	"os"
	"testing"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) {
	os.Exit(suite.Main(m, server.Options{Settings: server.Settings{Graphs: true}}, nil))
}
