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

	"github.com/espalier-dev/espalier/internal/manager"
	"github.com/espalier-dev/espalier/internal/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/providers/sandbox"
	"github.com/espalier-dev/espalier/providers/sandbox/cloud"
	"github.com/espalier-dev/espalier/sdk/managed"
)

// leaseDuration is short, so that a takeover does not take long.
const leaseDuration = time.Second

// freeze lets a process stand still at its n-th write, as one does whose machine is
// suspended: its requests neither arrive nor come back, until it thaws.
type freeze struct {
	n    int
	mu   sync.Mutex
	seen int
	cold chan struct{} // closed when it thaws; nil while it is warm
	once sync.Once
	// begun is closed when it has frozen.
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

// RoundTrip lets the answer of the n-th write wait, and every request after it.
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

// hasFrozen reports whether a process has been frozen.
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
		if f.cold != nil {
			close(f.cold)
			f.cold = nil
		}
		f.n = 0
	})
}

// replica is a whole program, one of several that compete for the work.
type replica struct {
	// led is closed once it has begun to work, and gone when it has ended for good.
	led, gone chan struct{}
	stop      func()
}

// launch runs a program, repeatedly like a cluster does: one that couldn't renew
// its lease in time, on a busy machine say, ends by itself. It is not run again once that
// is final.
func launch(t *testing.T, config *rest.Config, sky *cloud.Faulty, namespace string, final func() bool) *replica {
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
				Workers: 4, Providers: []managed.Provider{sandbox.Provider(sky)},
			})
			if err != nil {
				t.Error(err)
				return
			}
			life, end := context.WithCancel(ctx)
			go func() {
				select {
				case <-ready:
					once.Do(func() { close(r.led) })
				case <-life.Done():
				}
			}()
			_ = m.Run(life) // that another has taken over is an error
			end()
		}
	}()
	return r
}

// TestSweepTheLeaderStandsStill lets two processes compete, and the one that leads
// stand still after each of its writes until the other has taken over; then it goes
// on, and finds out. It makes no call that it had only prepared.
//
// Where a mark alone tells what came of a creation, the one that was stored and not
// begun takes some twenty seconds: a call that may be on its way is waited for, and
// before the deletion so is a second one.
func TestSweepTheLeaderStandsStill(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	frosts := 0
	for _, class := range []string{"named by us", "named by it, with tokens", "named by it, found by a mark"} {
		t.Run(class, func(t *testing.T) {
			l := life{world: w, config: config, sky: newCloud(classes[class]), policies: sets[0]}
			l.live(t, trouble{name: "none"})
			step := testkit.Size(6, 1)
			for n := 1; !t.Failed(); n += step {
				f := newFreeze(n)
				l.run = func(t *testing.T, config *rest.Config, sky *cloud.Faulty) func() {
					return runReplicas(t, config, sky, f)
				}
				before := len(l.sky.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect))
				name := fmt.Sprintf("the leader stands still after write %d", n)
				l.live(t, trouble{name: name})
				if made := len(l.sky.Journal().Select(cloud.Did(cloud.VerbCreate), cloud.HadEffect)) - before; made != 1 {
					t.Errorf("%s: %d buckets were made", name, made)
				}
				if all := l.sky.Admin().Resources(); len(all) > 0 {
					t.Errorf("%s: in the end there is %+v", name, all)
				}
				if !f.hasFrozen() {
					break // a life takes fewer writes
				}
				frosts++
			}
		})
	}
	if frosts == 0 {
		t.Error("no leader ever stood still")
	}
	testkit.Report(t, "creation: %d times the leader stood still until another had taken over", frosts)
}

// runReplicas runs a process that freezes, and another that waits.
func runReplicas(t *testing.T, config *rest.Config, sky *cloud.Faulty, f *freeze) (stop func()) {
	t.Helper()
	namespace := testkit.Namespace(t, config)
	first := launch(t, f.wrap(config), sky, namespace, f.hasFrozen)
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
		second = launch(t, config, sky, namespace, func() bool { return false })
	})
	rest.Go(func() {
		<-started
		timer := time.NewTimer(3 * leaseDuration) // long enough that it cannot lead any more, whatever it believes
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
			case <-first.gone: // it has found out that another leads
			case <-time.After(testkit.Timeout):
				t.Error("the one that stood still continues, and another leads")
			}
		}
		first.stop()
	}
}
