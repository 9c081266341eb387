package external

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// leaseDuration is short, so that a takeover doesn't take long.
const leaseDuration = time.Second

// frost lets a process stand still at its n-th write, as one does whose machine is
// suspended: its requests neither arrive nor come back, until it thaws.
type frost struct {
	n    int
	mu   sync.Mutex
	seen int
	cold chan struct{} // closed when it thaws; nil while it is warm
	once sync.Once
	// begun is closed when it has frozen.
	begun chan struct{}
}

func newFrost(n int) *frost { return &frost{n: n, begun: make(chan struct{})} }

func (f *frost) wrap(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return frozen{f, next} })
	return out
}

type frozen struct {
	*frost
	next http.RoundTripper
}

// RoundTrip lets the answer of the n-th write wait, and every request after it.
func (f frozen) RoundTrip(r *http.Request) (*http.Response, error) {
	f.stand(false)
	answer, err := f.next.RoundTrip(r)
	f.stand(testkit.IsWrite(r))
	return answer, err
}

func (f *frost) stand(write bool) {
	f.mu.Lock()
	if write {
		if f.seen++; f.seen == f.n {
			f.cold = make(chan struct{})
			close(f.begun)
		}
	}
	cold := f.cold
	f.mu.Unlock()
	if cold != nil {
		<-cold
	}
}

func (f *frost) thaw() {
	f.once.Do(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.cold != nil {
			close(f.cold)
			f.cold = nil
		}
		f.n = 0
	})
}

// replica is a whole program, one of several that compete for the work.
func replica(t *testing.T, config *rest.Config, sky *cloud.Cloud, namespace string) (done <-chan struct{}, stop func()) {
	t.Helper()
	m, err := server.NewManager(server.ManagerOptions{
		Options: manager.Options{
			Name: "espalier", Version: "test", Config: config, Log: manager.NewLogger(io.Discard, 0), HealthAddress: "0", MetricsAddress: "0",
			LeaderElection: true, LeaderElectionNamespace: namespace, LeaseDuration: leaseDuration,
		},
		Workers: 4, Providers: []managed.Provider{sandbox.Provider(sky)},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.Run(ctx) // that another has taken over is an error
	}()
	return ended, func() { cancel(); <-ended }
}

// TestSweepTheLeaderStandsStill lets two processes compete, and the one that leads
// stand still after each of its writes until the other has taken over; then it goes
// on, and finds out. It makes no call that it had only prepared.
func TestSweepTheLeaderStandsStill(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	frosts := 0
	for _, class := range []string{"named by us", "named by it, with tokens", "named by it, found by a mark"} {
		t.Run(class, func(t *testing.T) {
			l := life{world: w, config: config, sky: open(t, classes[class]), policies: sets[0]}
			defer l.sky.Close()
			one := l.live(t, trouble{name: "none"})
			step := testkit.Size(3, 1)
			for n := 1; n <= one.writes && !t.Failed(); n += step {
				l.run = func(t *testing.T, config *rest.Config, sky *cloud.Cloud) func() { return compete(t, config, sky, n) }
				before := len(l.sky.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect))
				name := fmt.Sprintf("the leader stands still after write %d", n)
				l.live(t, trouble{name: name})
				if made := len(l.sky.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect)) - before; made != 1 {
					t.Errorf("%s: %d buckets were made", name, made)
				}
				if all, err := l.sky.Admin().Snapshot(); err != nil || len(all.Resources) > 0 {
					t.Errorf("%s: in the end there is %+v (%v)", name, all.Resources, err)
				}
				frosts++
			}
		})
	}
	testkit.Say(t, "external: %d times the leader stood still until another had taken over", frosts)
}

// takenOver says whether the lease has passed from one process to another.
func takenOver(t *testing.T, config *rest.Config, namespace string) bool {
	t.Helper()
	lease := testkit.NewWorld(t, config).Get(t, schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, namespace, "espalier.espalier.dev")
	if lease == nil {
		return false
	}
	times, _, _ := unstructured.NestedInt64(lease.Object, "spec", "leaseTransitions")
	return times > 0
}

// compete runs a process that freezes after its n-th write, and another that waits.
func compete(t *testing.T, config *rest.Config, sky *cloud.Cloud, n int) (stop func()) {
	t.Helper()
	namespace := testkit.Namespace(t, config)
	f := newFrost(n)
	gone, stopFirst := replica(t, f.wrap(config), sky, namespace)
	over := make(chan struct{})
	var rest sync.WaitGroup
	var second func()
	started := make(chan struct{})
	rest.Go(func() {
		defer close(started)
		select {
		case <-f.begun:
		case <-over:
			return
		}
		_, second = replica(t, config, sky, namespace)
	})
	rest.Go(func() {
		<-started
		timer := time.NewTimer(3 * leaseDuration) // long enough that it can't lead any more, whatever it believes
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-over:
		}
		f.thaw()
	})
	return func() {
		close(over)
		rest.Wait()
		f.thaw()
		if takenOver(t, config, namespace) {
			select {
			case <-gone: // it has found out that another leads
			case <-time.After(testkit.Patience):
				t.Error("the one that stood still goes on, and another leads")
			}
		}
		stopFirst()
		if second != nil {
			second()
		}
	}
}
