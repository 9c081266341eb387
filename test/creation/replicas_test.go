package creation

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// leaseDuration is short, so that a takeover does not take long.
const leaseDuration = time.Second

// freeze suspends a process at its n-th write, as the suspension of its machine does: neither
// requests nor responses arrive until unfreeze.
type freeze struct {
	n     int
	mu    sync.Mutex
	seen  int
	until chan struct{} // closed by unfreeze; nil while the process is not frozen
	once  sync.Once
	// begun is closed when the process is frozen.
	begun chan struct{}
}

func newFreeze(n int) *freeze { return &freeze{n: n, begun: make(chan struct{})} }

func (f *freeze) wrap(config *rest.Config) *rest.Config {
	out := rest.CopyConfig(config)
	out.Wrap(func(next http.RoundTripper) http.RoundTripper { return frozen{f, next} })
	return out
}

type frozen struct {
	*freeze
	next http.RoundTripper
}

// RoundTrip delays the response of the n-th write, and every request after it.
func (f frozen) RoundTrip(r *http.Request) (*http.Response, error) {
	f.block(false)
	answer, err := f.next.RoundTrip(r)
	f.block(testkit.IsWrite(r))
	return answer, err
}

func (f *freeze) block(write bool) {
	f.mu.Lock()
	if write {
		if f.seen++; f.seen == f.n {
			f.until = make(chan struct{})
			close(f.begun)
		}
	}
	until := f.until
	f.mu.Unlock()
	if until != nil {
		<-until
	}
}

// hasFrozen reports whether the process has been frozen.
func (f *freeze) hasFrozen() bool { return closed(f.begun) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (f *freeze) unfreeze() {
	f.once.Do(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.until != nil {
			close(f.until)
			f.until = nil
		}
		f.n = 0
	})
}

// replica is a process of the program, one of several that compete for the lease.
type replica struct {
	// led is closed when it becomes the leader, and gone when it is not restarted any more.
	led, gone chan struct{}
	stop      func()
}

// launch runs the program, and restarts it like a kubelet: a process that cannot renew its lease in
// time, for example on a busy machine, exits. It is not restarted once final returns true.
func launch(t *testing.T, config *rest.Config, fakeCloud *cloud.Faulty, namespace string, final func() bool) *replica {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &replica{led: make(chan struct{}), gone: make(chan struct{})}
	r.stop = func() { cancel(); <-r.gone }
	var once sync.Once
	go func() {
		defer close(r.gone)
		for ctx.Err() == nil && !final() {
			ready := make(chan struct{})
			m, err := server.NewManager(server.ManagerOptions{
				Options: manager.Options{
					Name: "espalier", Version: "test", Config: config, Log: manager.NewLogger(io.Discard, manager.LogText, 0), HealthAddress: "0", MetricsAddress: "0",
					LeaderElection: true, LeaderElectionNamespace: namespace, LeaseDuration: leaseDuration, Ready: ready,
				},
				Settings: server.Settings{Workers: 4}, Providers: []managed.Provider{sandbox.Provider(fakeCloud)},
			})
			if err != nil {
				t.Error(err)
				return
			}
			running, end := context.WithCancel(ctx)
			go func() {
				select {
				case <-ready:
					once.Do(func() { close(r.led) })
				case <-running.Done():
				}
			}()
			_ = m.Run(running) // the loss of the lease is an error
			end()
		}
	}()
	return r
}

// TestSweepTheLeaderIsSuspended has two processes compete for the lease, and suspends the leader after
// each of its writes until the other leads; then it resumes, and notices that. It makes no call that
// it had only recorded.
//
// Where only a tag shows the outcome of a creation, a creation that was recorded and not begun takes
// some twenty seconds: the controllers wait for a call that may be in flight, and before the deletion
// for a second one.
func TestSweepTheLeaderIsSuspended(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	suspensions := 0
	for _, class := range []string{"named by the client", "named by the cloud, with tokens", "named by the cloud, found by a tag"} {
		t.Run(class, func(t *testing.T) {
			l := lifecycle{cluster: w, config: config, cloud: newCloud(classes[class]), policies: sets[0]}
			l.exercise(t, failure{name: "none"})
			step := testkit.Size(6, 1)
			for n := 1; !t.Failed(); n += step {
				f := newFreeze(n)
				l.run = func(t *testing.T, config *rest.Config, fakeCloud *cloud.Faulty) func() {
					return runReplicas(t, config, fakeCloud, f)
				}
				before := len(l.cloud.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect))
				name := fmt.Sprintf("the leader is suspended after write %d", n)
				l.exercise(t, failure{name: name})
				if made := len(l.cloud.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect)) - before; made != 1 {
					t.Errorf("%s: %d buckets were created", name, made)
				}
				if all := l.cloud.Admin().Resources(); len(all) > 0 {
					t.Errorf("%s: after the deletion the buckets are %+v", name, all)
				}
				if !f.hasFrozen() {
					break // a lifecycle takes fewer writes
				}
				suspensions++
			}
		})
	}
	if suspensions == 0 {
		t.Error("no leader was suspended")
	}
	testkit.Report(t, "creation: the leader was suspended %d times until another process led", suspensions)
}

// runReplicas runs a process that is frozen, and then another.
func runReplicas(t *testing.T, config *rest.Config, fakeCloud *cloud.Faulty, f *freeze) (stop func()) {
	t.Helper()
	testkit.NewCluster(t, config).FreeLeases(t)
	namespace := testkit.Namespace(t, config)
	first := launch(t, f.wrap(config), fakeCloud, namespace, f.hasFrozen)
	over := make(chan struct{})
	var rest sync.WaitGroup
	var second *replica
	started := make(chan struct{})
	rest.Go(func() {
		defer close(started)
		select {
		case <-f.begun:
		case <-over:
			return
		}
		second = launch(t, config, fakeCloud, namespace, func() bool { return false })
	})
	rest.Go(func() {
		<-started
		timer := time.NewTimer(3 * leaseDuration) // the lease has expired by then
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-over:
		}
		f.unfreeze()
	})
	return func() {
		close(over)
		rest.Wait()
		f.unfreeze()
		if second != nil {
			defer second.stop()
		}
		if second != nil && closed(second.led) {
			select {
			case <-first.gone: // it has noticed that another leads
			case <-time.After(testkit.Timeout):
				t.Error("the suspended process still runs, and another leads")
			}
		}
		first.stop()
	}
}
