package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

func TestStopWaitsForReconcilesInFlight(t *testing.T) {
	cases := map[string]struct {
		reason string
		do     reconciles
		want   time.Duration
	}{
		"A reconcile that ends soon is not cancelled": {
			reason: "its work is not lost",
			do: func(ctx context.Context, _ object.Key) reconcile.Result {
				<-time.After(stopGrace / 2)
				return reconcile.Fail(ctx.Err())
			},
			want: stopGrace / 2,
		},
		"A reconcile that hangs is cancelled after the grace period": {
			reason: "a successor waits for it",
			do:     hangs,
			want:   stopGrace,
		},
		"Stop waits for a reconcile that ignores its context": {
			reason: "a successor would work on the same object",
			do: func(context.Context, object.Key) reconcile.Result {
				<-time.After(4 * stopGrace)
				return reconcile.Fail(errors.New("no"))
			},
			want: 4 * stopGrace,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := funcr.New(func(_, args string) { t.Errorf("the stop is logged as a failure: %s", args) }, funcr.Options{})
				e := engineOver(newWorld(10), Config{Workers: 4, Log: log})
				end := run(t, e)
				c := e.Start(widget, tc.do, nil)
				synctest.Wait()
				began := time.Now()
				var stops sync.WaitGroup
				for range 2 { // the second waits, too
					stops.Go(func() {
						c.Stop()
						if took := time.Since(began); took != tc.want {
							t.Errorf("%s: the stop took %s, want %s", tc.reason, took, tc.want)
						}
					})
				}
				stops.Wait()
				end()
			})
		})
	}
}

func TestAFailureIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures atomic.Int32
		log := funcr.New(func(_, _ string) { failures.Add(1) }, funcr.Options{})
		e := engineOver(newWorld(1), Config{Workers: 4, Timeout: time.Second, Log: log})
		end := run(t, e)
		e.Start(widget, reconciles(hangs), nil)
		<-time.After(time.Second)
		synctest.Wait()
		if n := failures.Load(); n != 1 {
			t.Errorf("a reconcile that timed out was logged %d times", n)
		}
		<-time.After(time.Second)
		end() // cancels another
		if n := failures.Load(); n != 1 {
			t.Errorf("a reconcile that the end of the engine cancelled was logged")
		}
	})
}

func TestAKindMayTakeLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := make(chan time.Duration, 2)
		e := engineOver(newWorld(1), Config{Workers: 1, Timeout: time.Second, Timeouts: map[schema.GroupKind]time.Duration{widget.GroupKind(): time.Hour}})
		end := run(t, e)
		began := time.Now()
		e.Start(widget, reconciles(func(ctx context.Context, _ object.Key) reconcile.Result {
			<-ctx.Done()
			took <- time.Since(began)
			return reconcile.Done()
		}), nil)
		if got := <-took; got != time.Hour {
			t.Errorf("the reconcile ends after %s", got)
		}
		end()
	})
}

func TestAControllerMayStopBeforeTheEngineRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOver(newWorld(3), Config{Workers: 4})
		first := e.Start(widget, &witness{do: func(object.Key) { t.Error("a stopped controller reconciles") }}, nil)
		first.Enqueue(widgetKey(0), watch.Urgent)
		first.Stop()
		w := &witness{}
		e.Start(widget, w, nil)
		end := run(t, e)
		synctest.Wait()
		if got := w.count(); got != 3 {
			t.Errorf("its successor reconciled %d of 3 objects", got)
		}
		end()
	})
}

func TestAControllerMayStopWhileTheEngineEnds(t *testing.T) {
	onWorld(t, 10, func(_ *world, e *Engine) {
		var ended atomic.Int32
		c := e.Start(widget, reconciles(func(ctx context.Context, _ object.Key) reconcile.Result {
			<-ctx.Done()
			<-time.After(time.Second) // it finishes its work
			ended.Add(1)
			return reconcile.Done()
		}), nil)
		synctest.Wait()
		e.cancel()
		e.shutDown() // as Run does
		c.Stop()
		if n := ended.Load(); n != 3 {
			t.Errorf("Stop returned when %d of 3 reconciles had ended", n)
		}
		c.Stop()
	})
}

// leases watches the parts of each widget that exists, as the reconciler of instances does.
func leases(hub *watch.Hub, took time.Duration) reconciles {
	return func(_ context.Context, key object.Key) reconcile.Result {
		if _, ok := hub.GetCached(widget, key.Namespace, key.Name); !ok {
			hub.Forget(watch.Subscriber{Key: key})
			return reconcile.Done()
		}
		if took > 0 {
			<-time.After(took)
		}
		lease := hub.Begin(watch.Subscriber{Key: key})
		lease.Watch(watch.ChildrenOf(part, key.Name))
		lease.Commit()
		return reconcile.Done()
	}
}

func TestNoLeaseOutlivesItsController(t *testing.T) {
	const widgets, grace = 10, 24 * time.Hour
	cases := map[string]func(w *world, e *Engine){
		"A controller is stopped": func(_ *world, e *Engine) {
			c := e.Start(widget, leases(e.Hub, 0), nil)
			synctest.Wait()
			c.Stop()
		},
		"Kind and controller end at once, with reconciles in flight": func(w *world, e *Engine) {
			c := e.Start(widget, leases(e.Hub, time.Second), nil)
			<-time.After(time.Minute)
			for n := range 4 {
				c.Enqueue(widgetKey(n), watch.Urgent)
			}
			synctest.Wait()
			w.dropKind()
			e.Hub.KindChanged(widget.GroupKind(), watch.KindDeleted)
			synctest.Wait()
			c.Stop()
		},
		"A controller is replaced while a deletion waits for its reconcile": func(w *world, e *Engine) {
			old := e.Start(widget, leases(e.Hub, time.Second), nil)
			<-time.After(time.Minute)
			for n := range 4 {
				old.Enqueue(widgetKey(n), watch.Urgent)
			}
			synctest.Wait()
			w.remove(widgets - 1)
			synctest.Wait()
			e.Start(widget, leases(e.Hub, 0), nil)
			synctest.Wait()
			for n := range widgets - 1 {
				w.remove(n)
			}
		},
	}
	for name, play := range cases {
		t.Run(name, func(t *testing.T) {
			onWorld(t, widgets, func(w *world, e *Engine) {
				play(w, e)
				<-time.After(grace)
				for _, s := range e.Hub.Stats() {
					if s.Kind == part {
						t.Errorf("parts are still watched, for %d subscribers", s.Subscribers)
					}
				}
			})
		})
	}
}

// BenchmarkStop measures a stop while ten thousand objects wait for a reconcile and each has another that is
// delayed; one is being reconciled. The budget is 50 ms.
func BenchmarkStop(b *testing.B) {
	const objects = 10_000
	for b.Loop() {
		b.StopTimer()
		e := engineOver(newWorld(0), Config{Workers: 1, Log: logr.Discard()})
		end := run(b, e)
		busy := make(chan struct{})
		e.Start(part, reconciles(func(ctx context.Context, k object.Key) reconcile.Result {
			close(busy)
			return hangs(ctx, k)
		}), nil).Enqueue(key("slow"), watch.Urgent)
		<-busy
		c := e.Start(widget, &witness{}, nil)
		for n := range objects {
			k := widgetKey(n)
			c.Enqueue(k, watch.Priority(n%3))
			c.queue.AddAfter(k, time.Hour, watch.Background, nil)
		}
		b.StartTimer()
		c.Stop()
		b.StopTimer()
		end()
		b.StartTimer()
	}
}
