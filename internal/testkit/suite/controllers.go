package suite

import (
	"context"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Controllers are running controllers.
type Controllers struct {
	*server.Controllers
	// Stop stops the controllers and returns the error of their Run: one is expected where
	// the test has cut them off from the API server.
	Stop func() error
}

// Start runs controllers for one test, on a server on which no others run. It sets options
// that are left out to what suits tests. The caller calls Stop.
func Start(t *testing.T, o server.Options) *Controllers {
	t.Helper()
	if o.Events == nil {
		o.Events = DiscardEvents{}
	}
	if o.Workers == 0 {
		o.Workers = 4
	}
	c, err := launch(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// launch runs controllers until their Stop is called.
func launch(o server.Options) (*Controllers, error) {
	o.Version = "test"
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	c, err := server.NewControllers(o)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return &Controllers{Controllers: c, Stop: sync.OnceValue(func() error {
		cancel()
		return <-ended
	})}, nil
}

// DiscardEvents is a recorder that drops all events.
type DiscardEvents struct{}

// Event does nothing.
func (DiscardEvents) Event(runtime.Object, telemetry.Severity, string, string) {}
