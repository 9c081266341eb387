// Package creation proves that asynchronous creation survives any crash: the controllers of
// managed resources stop after their first, second, … last write, and the calls that they
// make go wrong, with the sandbox cloud behaving like one class of external API after the
// other, and with a PostgreSQL server. The API server and what is outside have to end as
// they would have without.
package creation

import (
	"io"
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed"
)

func TestMain(m *testing.M) {
	manager.NewLogger(io.Discard, manager.LogText, 0) // before anything runs that would log
	os.Exit(testkit.Main(m))
}

// newCloud returns a cloud in which buckets have a behaviour.
func newCloud(behaviour cloud.Behaviour) *cloud.Faulty {
	return cloud.NewFaulty(cloud.New(cloud.Options{
		Journal: &cloud.Journal{}, Behaviours: map[cloud.Type]cloud.Behaviour{cloud.TypeBucket: behaviour},
	}))
}

// run starts the controllers and returns a function that stops them.
func run(t *testing.T, config *rest.Config, sky *cloud.Faulty) (stop func()) {
	t.Helper()
	return runWith(t, server.Options{Config: config}, sky)
}

func runWith(t *testing.T, o server.Options, sky *cloud.Faulty) (stop func()) {
	t.Helper()
	o.Providers = []managed.Provider{sandbox.Provider(sky)}
	return start(t, o)
}

func start(t *testing.T, o server.Options) (stop func()) {
	t.Helper()
	c := suite.Start(t, o)
	return func() { _ = c.Stop() } // a crash is an error
}
