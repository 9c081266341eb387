// Package watches proves that watches start and stop without leaks: tests create and delete hundreds
// of kinds, definitions and instances, in every order, and count goroutines, watches here and as
// the API server counts them, and memory.
package watches

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// controllers are a set of controllers that a test has for itself.
type controllers struct {
	*server.Controllers
	stop func()
	// failures counts reconciles that ended with an error.
	failures atomic.Int64
}

// run starts controllers, and stops them at the end of the test.
func run(t *testing.T, config *rest.Config) *controllers {
	t.Helper()
	c := &controllers{}
	log := logr.Discard()
	if os.Getenv("ESPALIER_TEST_LOG") != "" {
		log = funcr.New(func(_, args string) { t.Log(args) }, funcr.Options{Verbosity: 1})
	}
	own := suite.Start(t, server.Options{
		Config: config, Settings: server.Settings{Workers: 8, AllowCRDDeletion: true}, Log: log,
		Observe: func(p reconcile.Run) {
			if p.Err != nil {
				c.failures.Add(1)
			}
		},
	})
	c.Controllers = own.Controllers
	c.stop = sync.OnceFunc(func() {
		if err := own.Stop(); err != nil {
			t.Errorf("the controllers ended with %v", err)
		}
	})
	t.Cleanup(c.stop)
	if err := c.WaitStarted(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// await waits for a state of the controllers, which no watch reports.
func (c *controllers) await(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// noError ends the test if a step failed.
func noError(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
