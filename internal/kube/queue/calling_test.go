package queue

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

func namespacedKey(namespace string, n int) object.Key {
	return object.Key{Group: widget.Group, Kind: widget.Kind, Namespace: namespace, Name: fmt.Sprint("w", n)}
}

// TestExternalSystemsThatHangDoNotDelayOthers has external systems of six namespaces hang, three of each, as six tenants
// with three connections have them. Other tenants' objects are reconciled at once.
func TestExternalSystemsThatHangDoNotDelayOthers(t *testing.T) {
	const workers, tenants, each = 16, 6, 3
	synctest.Test(t, func(t *testing.T) {
		var waiting, running atomic.Int32
		hang, busy := make(chan struct{}), make(chan struct{})
		done := make(chan object.Key, many)
		e := engineOver(newWorld(0), Config{Workers: workers, Timeout: time.Hour})
		c := e.Start(widget, reconciles(func(ctx context.Context, key object.Key) reconcile.Result {
			if key.Namespace == "busy" {
				running.Add(1)
				<-busy
				return reconcile.Done()
			}
			if key.Namespace != "answers" {
				waiting.Add(1)
				end := Calling(ctx)
				<-hang
				end()
				waiting.Add(-1)
			}
			done <- key
			return reconcile.Done()
		}), nil)
		end := run(t, e)
		for n := range each {
			for tenant := range tenants {
				c.Enqueue(namespacedKey(fmt.Sprint("tenant-", tenant), n), watch.Urgent)
			}
		}
		synctest.Wait()
		if got := waiting.Load(); got != tenants*each {
			t.Errorf("%d reconciles wait for external systems, want %d", got, tenants*each)
		}
		for n := range 100 {
			c.Enqueue(namespacedKey("answers", n), watch.Background)
		}
		synctest.Wait()
		if got := len(done); got != 100 {
			t.Errorf("%d of 100 objects of others were reconciled", got)
		}

		t.Log("once they answer, there are as many workers as before")
		close(hang)
		synctest.Wait()
		if got := len(done); got != 100+tenants*each {
			t.Errorf("%d were reconciled", got)
		}
		for n := range 3 * workers {
			c.Enqueue(namespacedKey("busy", n), watch.Urgent)
		}
		synctest.Wait()
		if want := int32(limitsFor(workers).runningOf); running.Load() != want || c.queue.calls.total != 0 || len(c.queue.calls.of) != 0 {
			t.Errorf("%d reconciles of one namespace run at a time, want %d; %v calls are counted", running.Load(), want, c.queue.calls)
		}
		close(busy)
		synctest.Wait()
		if c.queue.running.total != 0 {
			t.Errorf("%v are counted as running", c.queue.running)
		}
		end()
	})
}

// TestCallsHaveLimits has more reconciles wait for external systems than are allowed, of one namespace and of all.
func TestCallsHaveLimits(t *testing.T) {
	const workers = 8
	cases := map[string]struct {
		namespaces, want int
	}{
		"of one namespace": {1, limitsFor(workers).callsOf},
		"of two":           {2, 2 * limitsFor(workers).callsOf},
		"of many":          {100, limitsFor(workers).calls},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang := make(chan struct{})
				e := engineOver(newWorld(0), Config{Workers: workers, Timeout: time.Hour})
				c := e.Start(widget, reconciles(func(ctx context.Context, _ object.Key) reconcile.Result {
					defer Calling(ctx)()
					<-hang
					return reconcile.Done()
				}), nil)
				end := run(t, e)
				for n := range 200 {
					c.Enqueue(namespacedKey(fmt.Sprint("tenant-", n%tc.namespaces), n), watch.Urgent)
				}
				synctest.Wait()
				if got := c.queue.calls.total; got != tc.want {
					t.Errorf("%d calls, want %d", got, tc.want)
				}
				close(hang)
				synctest.Wait()
				if c.queue.running.total != 0 || c.queue.calls.total != 0 {
					t.Errorf("counted: %v running, %v calls", c.queue.running, c.queue.calls)
				}
				end()
			})
		})
	}
}

// TestAnEngineStopsDuringACall stops while a reconcile waits for an external system.
func TestAnEngineStopsDuringACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOver(newWorld(0), Config{Workers: 1, Timeout: time.Hour})
		c := e.Start(widget, reconciles(func(ctx context.Context, _ object.Key) reconcile.Result {
			defer Calling(ctx)()
			<-ctx.Done()
			<-time.After(time.Second) // a client that ignores the context
			return reconcile.Done()
		}), nil)
		end := run(t, e)
		c.Enqueue(namespacedKey("a", 1), watch.Urgent)
		synctest.Wait()
		end()
	})
}
