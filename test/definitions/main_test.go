// Package definitions tests definitions of graphs as their authors meet them: what is accepted,
// which kind is served, and how revisions are issued, rolled out and rolled back.
package definitions

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) {
	os.Exit(suite.Main(m, server.Options{Config: &rest.Config{WrapTransport: watches.wrap}}, nil))
}
