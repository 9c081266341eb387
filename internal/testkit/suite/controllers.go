package suite

import (
	"context"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// Controllers are running controllers.
type Controllers struct {
	*server.Controllers
	// Stop stops them and returns what they ended with: an error where the test has
	// cut them off from the API server.
	Stop func() error
}

// Start runs controllers that a test has for itself, on a server that no others serve.
// What the options leave out is chosen for tests. Whoever starts them stops them.
func Start(t *testing.T, o server.Options) *Controllers {
	t.Helper()
	if o.Events == nil {
		o.Events = Silent{}
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

// launch runs controllers until they are stopped.
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

// Silent records no events.
type Silent struct{}

// Event does nothing.
func (Silent) Event(runtime.Object, telemetry.Severity, string, string) {}
