// Package external stops the controllers of managed resources after their first,
// second, … last write and lets the calls that they make go wrong, with the sandbox
// cloud behaving like one class of external API after the other, and looks whether
// the cloud and the API server end as they would have without.
package external

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed"
)

func TestMain(m *testing.M) {
	manager.NewLogger(io.Discard, manager.LogText, 0) // before anything runs that would log
	os.Exit(testkit.Main(m))
}

type silent struct{}

func (silent) Event(runtime.Object, telemetry.Severity, string, string) {}

// open opens a cloud in which buckets behave in a way.
func open(t *testing.T, behaviour cloud.Behaviour) *cloud.Cloud {
	t.Helper()
	sky, err := cloud.Open(t.TempDir(), cloud.Options{Journal: cloud.NewJournal(1_000_000), Behaviours: map[cloud.Type]cloud.Behaviour{cloud.TypeBucket: behaviour}})
	if err != nil {
		t.Fatal(err)
	}
	return sky
}

// run starts the controllers and returns how to stop them.
func run(t *testing.T, config *rest.Config, sky *cloud.Cloud) (stop func()) {
	t.Helper()
	return runWith(t, server.Options{Config: config}, sky)
}

func runWith(t *testing.T, o server.Options, sky *cloud.Cloud) (stop func()) {
	t.Helper()
	o.Version, o.Log, o.Events, o.Providers = "test", logr.Discard(), silent{}, []managed.Provider{sandbox.Provider(sky)}
	if o.Workers == 0 {
		o.Workers = 4
	}
	c, err := server.NewControllers(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx) // a crash is an error
	}()
	return func() { cancel(); <-done }
}
