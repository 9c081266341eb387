package sharding

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/kube/fence"
	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// leaseDuration is short, so that a takeover does not take long.
const leaseDuration = time.Second

// replica is one process of the controllers.
type replica struct {
	name string
	// stop ends it as SIGTERM does, and returns when it has ended.
	stop func()
	// ready is closed when its controllers run.
	ready chan struct{}
}

// start runs a replica. Wrap changes how it connects; nil for nothing.
func start(t *testing.T, name string, config *rest.Config, namespace string, fakeCloud *cloud.Faulty, j *journal, wrap func(*rest.Config) *rest.Config) *replica {
	t.Helper()
	return startAs(t, name, config, namespace, fakeCloud, j, wrap, func(*manager.Options) {})
}

// startAs is start with other options.
func startAs(t *testing.T, name string, config *rest.Config, namespace string, fakeCloud *cloud.Faulty, j *journal, wrap func(*rest.Config) *rest.Config, change func(*manager.Options)) *replica {
	t.Helper()
	config = j.wrap(name, config) // it is nearest to the API server
	if wrap != nil {
		config = wrap(config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{name: name, ready: make(chan struct{})}
	var log io.Writer = io.Discard
	if testing.Verbose() {
		log = os.Stderr
	}
	options := manager.Options{
		Name: "espalier", Version: "test", Config: config, Log: manager.NewLogger(log, manager.LogText, 0).WithName(name), HealthAddress: "0", MetricsAddress: "0",
		Sharding: true, LeaderElectionNamespace: namespace, LeaseDuration: leaseDuration, Ready: r.ready,
	}
	change(&options)
	m, err := server.NewManager(server.ManagerOptions{
		Options: options, Workers: 4, Usages: true, Providers: []managed.Provider{sandbox.Provider(fakeCloud)},
	})
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if err := m.Run(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("%s has ended: %v", name, err)
		}
	}()
	r.stop = sync.OnceFunc(func() { cancel(); <-gone })
	t.Cleanup(r.stop)
	return r
}

// awaitReady waits until the controllers of a replica run.
func (r *replica) awaitReady(t *testing.T) {
	t.Helper()
	select {
	case <-r.ready:
	case <-time.After(testkit.Timeout):
		t.Fatalf("%s is not ready", r.name)
	}
}

// journal has the writes of all replicas that the API server has accepted, in the order of the answers. It is
// safe for concurrent use.
type journal struct {
	mu     sync.Mutex
	writes []write
}

type write struct {
	replica, method, path string
	epoch                 int64
}

func (w write) String() string {
	return fmt.Sprintf("%s (epoch %d): %s %s", w.replica, w.epoch, w.method, w.path)
}

func (j *journal) wrap(name string, config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return recording{j, name, next} })
	return config
}

type recording struct {
	*journal
	name string
	next http.RoundTripper
}

func (r recording) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := r.next.RoundTrip(request)
	tenure := fence.Of(request.Context())
	if err != nil || answer.StatusCode >= 300 || tenure == nil || !testkit.IsWrite(request) {
		return answer, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, write{r.name, request.Method, request.URL.Path, tenure.Epoch})
	return answer, err
}

// all returns the writes so far.
func (j *journal) all() []write {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.writes)
}

// by counts the writes of each replica.
func (j *journal) by() map[string]int {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := map[string]int{}
	for _, w := range j.writes {
		out[w.replica]++
	}
	return out
}

// late returns those of the writes that were accepted after another replica had written to the same object in a
// later epoch.
func late(writes []write) (out []write) {
	last := map[string]write{}
	for _, w := range writes {
		object := strings.TrimSuffix(w.path, "/status")
		if before := last[object]; before.epoch > w.epoch {
			out = append(out, w)
			continue
		}
		last[object] = w
	}
	slices.SortFunc(out, func(a, b write) int { return cmp.Compare(a.path, b.path) })
	return out
}
