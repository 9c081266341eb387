// Package churn lets kinds, definitions and instances come and go, by the
// hundred and in every order, and counts what is left of them: goroutines,
// watches here and as the API server counts them, and memory.
package churn

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Main(m)) }

// controllers are a set of controllers that a test has for itself.
type controllers struct {
	*server.Controllers
	stop func()
	// failures counts passes that ended with an error.
	failures atomic.Int64
}

// run starts controllers that act with the given configuration, and stops them
// with the test.
func run(t *testing.T, config *rest.Config) *controllers {
	t.Helper()
	c := &controllers{}
	log := logr.Discard()
	if os.Getenv("ESPALIER_TEST_LOG") != "" {
		log = funcr.New(func(_, args string) { t.Log(args) }, funcr.Options{Verbosity: 1})
	}
	var err error
	c.Controllers, err = server.NewControllers(server.Options{
		Config: config, Workers: 8, Version: "test", Log: log, Events: silent{}, AllowCRDDeletion: true,
		Observe: func(p outcome.Pass) {
			if p.Err != nil {
				c.failures.Add(1)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	c.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the controllers ended with %v", err)
		}
		c.stop = func() {}
	}
	t.Cleanup(func() { c.stop() })
	if err := c.AwaitServing(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

type silent struct{}

func (silent) Event(runtime.Object, telemetry.Severity, string, string) {}

// until waits for something of the controllers' own, which no watch tells of.
func (c *controllers) until(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
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

// must ends the test where a step of it fails.
func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}
