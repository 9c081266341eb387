package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientevents "k8s.io/client-go/tools/events"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// engine is the controllers. They run in this process, so that their memory can be measured and
// their CPU time be profiled.
type engine struct {
	*server.Controllers
	stop  context.CancelFunc
	ended chan error
	reconcileCounter
	firstReconciles
}

// reconcileCounter counts, by kind, the reconciles that succeeded and requested no other one.
type reconcileCounter struct {
	mu     sync.Mutex
	byKind map[string]int
	last   time.Time
}

func (c *reconcileCounter) observe(run reconcile.Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if run.Err == nil && run.RequeueAfter == 0 {
		c.byKind[run.Kind.Kind]++
	}
	c.last = time.Now()
}

// of returns the number of reconciles of a kind, and when the last reconcile of any kind ended.
func (c *reconcileCounter) of(kind string) (int, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byKind[kind], c.last
}

// startEngine starts the controllers as `espalier run` would, and returns once they run.
func (b *bench) startEngine(ctx context.Context) error {
	log := logr.Discard()
	if b.log {
		log = funcr.New(func(prefix, args string) {
			fmt.Fprintln(os.Stderr, time.Now().Format("15:04:05.000"), prefix, args)
		}, funcr.Options{})
	}
	running, stop := context.WithCancel(context.Background())
	e := &engine{stop: stop, ended: make(chan error, 1), reconcileCounter: reconcileCounter{byKind: map[string]int{}}}
	observe := func(run reconcile.Run) {
		e.reconcileCounter.observe(run)
		e.firstReconciles.observe(run)
	}
	client, err := kubernetes.NewForConfig(b.plane.Config())
	if err != nil {
		stop()
		return err
	}
	broadcaster := clientevents.NewBroadcaster(&clientevents.EventSinkImpl{Interface: client.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(running); err != nil {
		stop()
		return err
	}
	recorder := telemetry.NewRecorder(broadcaster.NewRecorder(runtime.NewScheme(), "espalier"))
	config := rest.CopyConfig(b.plane.Config())
	config.Impersonate.UserName = b.user
	if e.Controllers, err = server.NewControllers(server.Options{
		Config: config, Settings: server.Settings{Workers: b.workers, AdmissionPolicies: true, Graphs: true}, Version: "bench", Log: log, Events: recorder, Observe: observe,
	}); err != nil {
		stop()
		return err
	}
	go func() {
		err := e.Run(running)
		broadcaster.Shutdown()
		e.ended <- err
	}()
	b.engine = e
	return e.WaitStarted(ctx)
}

// stopEngine stops the controllers and returns when they have ended.
func (b *bench) stopEngine() error {
	if b.engine == nil {
		return nil
	}
	e := b.engine
	b.engine = nil
	e.stop()
	select {
	case err := <-e.ended:
		return err
	case <-time.After(time.Minute):
		return errors.New("the controllers did not stop within a minute")
	}
}

// awaitReconciles waits until there were n reconciles of a kind, and then until there are no more
// for a quietPeriod. It returns when the last one ended.
func (b *bench) awaitReconciles(ctx context.Context, kind string, n int) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, b.waitTimeout())
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if done, last := b.engine.of(kind); done >= n && time.Since(last) > quietPeriod {
				return last, nil
			}
		case <-ctx.Done():
			done, _ := b.engine.of(kind)
			return time.Time{}, fmt.Errorf("%d of %d reconciles of %s: %w", done, n, kind, context.Cause(ctx))
		}
	}
}
