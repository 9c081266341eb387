// Package creation proves that the creation of external resources survives crashes: the controllers
// of managed resources crash after their first, second, … last write, and their calls fail, with
// the sandbox cloud behaving like several classes of external APIs, and with a PostgreSQL server.
// The API server and the external resources end as they do without failures.
package creation

import (
	"io"
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed"
)

func TestMain(m *testing.M) {
	manager.NewLogger(io.Discard, manager.LogText, 0) // it sets the global logger, before anything logs
	os.Exit(testkit.Main(m))
}

// newCloud returns a cloud in which buckets have a behaviour.
func newCloud(behaviour cloud.Behaviour) *cloud.Faulty {
	return cloud.NewFaulty(cloud.New(cloud.Options{
		Journal: &cloud.Journal{}, Behaviours: map[cloud.Type]cloud.Behaviour{cloud.TypeBucket: behaviour},
	}))
}

// run starts the controllers and returns a function that stops them.
func run(t *testing.T, config *rest.Config, fakeCloud *cloud.Faulty) (stop func()) {
	t.Helper()
	return runWith(t, server.Options{Config: config}, fakeCloud)
}

func runWith(t *testing.T, o server.Options, fakeCloud *cloud.Faulty) (stop func()) {
	t.Helper()
	o.Providers = []managed.Provider{sandbox.Provider(fakeCloud)}
	return start(t, o)
}

func start(t *testing.T, o server.Options) (stop func()) {
	t.Helper()
	c := suite.Start(t, o)
	return func() { _ = c.Stop() } // a crash is an error
}
