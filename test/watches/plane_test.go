package watches

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/embedded"
)

// plane is an API server of one test, which restarts it, or leaves objects on it whose deletion would
// take long.
type plane struct {
	*embedded.ControlPlane
	options embedded.Options
}

// ownPlane starts an API server, and stops it at the end of the test.
func ownPlane(t *testing.T) *plane {
	t.Helper()
	p := &plane{options: embedded.Options{DataDir: filepath.Join(t.TempDir(), "data"), NoFsync: true}}
	p.start(t)
	t.Cleanup(func() { p.stop(t) })
	return p
}

func (p *plane) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var err error
	if p.ControlPlane, err = embedded.Start(ctx, p.options); err != nil {
		t.Fatal(err)
	}
}

func (p *plane) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		t.Errorf("the API server stopped with %v", err)
	}
}
