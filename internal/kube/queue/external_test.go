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
	"github.com/espalier-dev/espalier/internal/reconcile"
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
				end := Waiting(ctx)
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
		<-time.After(3 * handOverAfter) // until all that wait have a worker, one round after the other
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
		if want := int32(workers - reservedWorkers(workers) - reservedForNamespaces(workers)); running.Load() != want || e.queue.surplus != 0 || e.queue.handedOver != 0 || len(e.queue.handedOverOf) != 0 {
			t.Errorf("%d reconciles of one namespace run at a time, want %d; %d workers are too many, %d are handed over", running.Load(), want, e.queue.surplus, e.queue.handedOver)
		}
		close(busy)
		synctest.Wait()
		if e.queue.free != workers {
			t.Errorf("%d workers are free", e.queue.free)
		}
		end()
	})
}

// TestWorkersAreHandedOverWithinLimits has more reconciles wait than there are workers to hand over, of one namespace and of
// all.
func TestWorkersAreHandedOverWithinLimits(t *testing.T) {
	const workers = 8
	cases := map[string]struct {
		namespaces, want int
	}{
		"of one namespace": {1, maxHandedOverOf(workers)},
		"of two":           {2, 2 * maxHandedOverOf(workers)},
		"of many":          {100, maxHandedOver(workers)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang := make(chan struct{})
				e := engineOver(newWorld(0), Config{Workers: workers, Timeout: time.Hour})
				c := e.Start(widget, reconciles(func(ctx context.Context, _ object.Key) reconcile.Result {
					defer Waiting(ctx)()
					<-hang
					return reconcile.Done()
				}), nil)
				end := run(t, e)
				for n := range 200 {
					c.Enqueue(namespacedKey(fmt.Sprint("tenant-", n%tc.namespaces), n), watch.Urgent)
				}
				<-time.After(time.Minute)
				synctest.Wait()
				if got := e.queue.handedOver; got != tc.want {
					t.Errorf("%d are handed over, want %d", got, tc.want)
				}
				close(hang)
				synctest.Wait()
				if e.queue.free != workers || e.queue.surplus != 0 || e.queue.handedOver != 0 {
					t.Errorf("%d workers are free, %d too many, %d handed over", e.queue.free, e.queue.surplus, e.queue.handedOver)
				}
				end()
			})
		})
	}
}

// TestAStoppedEngineHandsNothingOver stops while a reconcile waits.
func TestAStoppedEngineHandsNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := engineOver(newWorld(0), Config{Workers: 1, Timeout: time.Hour})
		c := e.Start(widget, reconciles(func(ctx context.Context, _ object.Key) reconcile.Result {
			defer Waiting(ctx)()
			<-ctx.Done()
			<-time.After(2 * handOverAfter) // a client that ignores the context
			return reconcile.Done()
		}), nil)
		end := run(t, e)
		c.Enqueue(namespacedKey("a", 1), watch.Urgent)
		synctest.Wait()
		end()
	})
}
