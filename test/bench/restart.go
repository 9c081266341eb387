package main

import (
	"context"
	"fmt"
	"runtime"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/program/server"
)

// measureRestart restarts the controllers, once without instances and once with many. It measures
// their writes, the time until all instances are reconciled, and the memory of the instances.
func measureRestart(ctx context.Context, b *bench) error {
	f, err := b.flats(ctx, "Flat", ours("flats"))
	if err != nil {
		return err
	}
	defer f.seen.stop()
	n, prefix := b.restarted(), "many"
	idle, busy, err := f.restartWithMany(ctx, prefix, n)
	if err != nil {
		return err
	}
	b.add(row{Work: "memory per child, including its share of the instance", Unit: "bytes", Value: float64(busy.heap-idle.heap) / float64(busy.children),
		Budget: 8 << 10,
		Detail: fmt.Sprintf("%d ConfigMaps in the cache; %.1f MiB in this process without instances", busy.children, float64(idle.heap)/(1<<20))})
	if err := f.events(ctx, prefix, n); err != nil {
		return err
	}
	if err := f.restartControllers(ctx, n); err != nil {
		return err
	}
	_, err = f.delete(ctx, prefix, n)
	return err
}

// restartWithMany restarts the controllers, once without instances and once with n, which it creates.
func (f flatInstances) restartWithMany(ctx context.Context, prefix string, n int) (idle, busy restarted, err error) {
	if idle, err = f.restart(ctx, "restart without "+f.words(), 0, f.untilReconciled(f.kind, 0)); err != nil {
		return idle, busy, err
	}
	if _, err = f.create(ctx, prefix, n); err != nil {
		return idle, busy, err
	}
	if busy, err = f.restart(ctx, "restart with "+f.words(), n, f.untilReconciled(f.kind, n)); err != nil {
		return idle, busy, err
	}
	f.add(row{Work: fmt.Sprintf("restart with %d %s", n, f.words()), Unit: "writes", Value: float64(busy.requests.of(writes)),
		Detail: fmt.Sprintf("all reconciled after %.1f s; %d reads besides watches", busy.took.Seconds(), busy.requests.of(work)-busy.requests.of(writes))})
	return idle, busy, nil
}

// restartControllers stops the controllers while no reconcile is in flight, and starts them again.
func (f flatInstances) restartControllers(ctx context.Context, n int) error {
	began := time.Now()
	if err := f.stopEngine(); err != nil {
		return err
	}
	f.add(row{Work: fmt.Sprintf("stop the controllers with %d instances, none in flight", n), Unit: "ms", Value: milliseconds(time.Since(began)), Budget: 50})
	return f.startEngine(ctx)
}

// restarted is the measurement of a restart.
type restarted struct {
	requests requests
	took     time.Duration // until all instances were reconciled
	heap     int64         // of this process, with the controllers
	children int
}

// untilReconciled waits for the reconciles of n objects of a kind, and returns when the last one ended.
func (b *bench) untilReconciled(kind string, n int) func(context.Context) (time.Time, error) {
	return func(ctx context.Context) (time.Time, error) { return b.awaitReconciles(ctx, kind, n) }
}

// restart stops the controllers, starts them again, and waits until they know everything, as the
// function says.
func (b *bench) restart(ctx context.Context, what string, objects int, untilKnown func(context.Context) (time.Time, error)) (restarted, error) {
	var r restarted
	former := weak.Make(b.engine.Controllers)
	if err := b.stopEngine(); err != nil {
		return r, err
	}
	err := awaitCollected(ctx, former)
	if err != nil {
		return r, err
	}
	r.requests, err = b.countRequests(ctx, what, objects, nil, func() error {
		began := time.Now()
		if err := b.startEngine(ctx); err != nil {
			return err
		}
		if err := b.awaitReadyDefinitions(ctx); err != nil {
			return err
		}
		known, err := untilKnown(ctx)
		r.took = known.Sub(began)
		return err
	})
	r.heap = heap()
	for _, s := range b.engine.Hub.Stats() {
		if s.Kind == (schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}) {
			r.children += s.Objects
		}
	}
	return r, err
}

// awaitCollected waits until stopped controllers are garbage, which timers of theirs delay by a few
// seconds: the heap would be that of two sets of controllers, which no process has.
func awaitCollected(ctx context.Context, stopped weak.Pointer[server.Controllers]) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if runtime.GC(); stopped.Value() == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("something keeps stopped controllers in memory: %w", context.Cause(ctx))
		}
	}
}

// awaitReadyDefinitions waits until all definitions are reconciled. Their conditions do not show
// that, since they were ready before.
func (b *bench) awaitReadyDefinitions(ctx context.Context) error {
	_, err := b.awaitReconciles(ctx, "ResourceGraphDefinition", 4)
	return err
}

// heap is the memory in use after garbage collection. The second collection empties the sync.Pools.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
