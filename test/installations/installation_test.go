package installations

import (
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/shard"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// world is a cluster without controllers.
type world struct {
	suite.Suite
	other string // another namespace
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config := testkit.ExclusiveServer(t)
	w := &world{
		Suite: suite.Suite{Cluster: testkit.NewCluster(t, config), Config: config, Group: testkit.Group(t), NS: testkit.Namespace(t, config)},
		other: testkit.Namespace(t, config),
	}
	w.FreeLeases(t)
	return w
}

// installation is one process of the controllers.
type installation struct {
	// stop ends it as SIGTERM does, and returns when it has ended.
	stop func()
	// ready is closed when its controllers run, and ended receives why it has ended.
	ready chan struct{}
	ended chan error

	mu     sync.Mutex
	writes []string // the paths of accepted writes
}

// install runs the controllers for the objects that the values of the flags select.
func (w *world) install(t *testing.T, namespaces []string, labels string) *installation {
	t.Helper()
	selector, err := shard.Parse(namespaces, labels)
	if err != nil {
		t.Fatal(err)
	}
	i := &installation{ready: make(chan struct{}), ended: make(chan error, 1)}
	config := rest.CopyConfig(w.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recording{i, next} })
	log := io.Discard
	if testing.Verbose() {
		log = os.Stderr
	}
	m, err := server.NewManager(server.ManagerOptions{Options: manager.Options{
		Name: "espalier", Version: "test", Config: config, Log: manager.NewLogger(log, manager.LogText, 0).WithName(selector.String()), HealthAddress: "0", MetricsAddress: "0",
		LeaderElection: true, LeaderElectionNamespace: w.NS, LeaseDuration: 2 * time.Second, Shard: selector, Ready: i.ready,
	}, Settings: server.Settings{Workers: 4, Usages: true}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		i.ended <- m.Run(ctx)
	}()
	i.stop = sync.OnceFunc(func() { cancel(); <-gone })
	t.Cleanup(i.stop)
	return i
}

func (i *installation) awaitReady(t *testing.T) {
	t.Helper()
	select {
	case <-i.ready:
	case err := <-i.ended:
		t.Fatalf("the installation has ended: %v", err)
	case <-time.After(testkit.Timeout):
		t.Fatal("the installation is not ready")
	}
}

// written returns the accepted writes whose paths contain a text.
func (i *installation) written(containing string) []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(i.writes), func(path string) bool { return !strings.Contains(path, containing) })
}

// recording records the writes of an installation.
type recording struct {
	*installation
	next http.RoundTripper
}

func (r recording) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.next.RoundTrip(request)
	if err == nil && request.Method != http.MethodGet && answer.StatusCode < http.StatusBadRequest {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.writes = append(r.writes, request.Method+" "+request.URL.Path)
	}
	return answer, err
}
