package queue

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// witness records the objects that it reconciles.
type witness struct {
	mu   sync.Mutex
	seen map[string]int
	do   func(key object.Key)
}

func (w *witness) Reconcile(_ context.Context, key object.Key) reconcile.Result {
	if w.do != nil {
		w.do(key)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seen == nil {
		w.seen = map[string]int{}
	}
	w.seen[key.Name]++
	return reconcile.Done()
}

func (w *witness) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.seen)
}

func TestARestartedKindIsReconciledCompletely(t *testing.T) {
	const widgets = 500
	onWorld(t, widgets, func(_ *world, e *Engine) {
		for round := range 20 {
			w := &witness{}
			c := e.Start(widget, w, nil)
			synctest.Wait()
			if got := w.count(); got != widgets {
				t.Errorf("round %d: %d of %d objects were reconciled", round, got, widgets)
			}
			c.Stop() // the watch remains, and reports all objects to the next controller
		}
	})
}

func TestASuccessorWaitsForReconcilesOfItsPredecessor(t *testing.T) {
	onWorld(t, 8, func(_ *world, e *Engine) {
		var mu sync.Mutex
		working := map[string]bool{}
		do := func(key object.Key) {
			mu.Lock()
			if working[key.Name] {
				t.Errorf("%s is reconciled twice at once", key.Name)
			}
			working[key.Name] = true
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			working[key.Name] = false
			mu.Unlock()
		}
		e.Start(widget, &witness{do: do}, nil)
		synctest.Wait()
		old := e.Start(widget, &witness{do: do}, nil)
		<-time.After(time.Second / 2)
		last := &witness{do: do}
		var starts sync.WaitGroup
		for range 3 { // of those that start at once, one remains
			starts.Go(func() { e.Start(widget, last, nil) })
		}
		starts.Wait()
		old.Stop() // late: it must not stop a successor
		<-time.After(time.Minute)
		if got := last.count(); got != 8 {
			t.Errorf("the last controller reconciled %d of 8 objects", got)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.running) != 1 || e.running[widget.GroupKind()].reconciler != last {
			t.Errorf("the last controller was stopped with its predecessor")
		}
	})
}

// TestAHangingKindLeavesWorkersToOthers: a webhook of one kind doesn't answer, and every reconcile
// of its objects takes until its timeout.
func TestAHangingKindLeavesWorkersToOthers(t *testing.T) {
	onWorld(t, 1000, func(_ *world, e *Engine) {
		e.Start(widget, reconciles(hangs), nil)
		synctest.Wait()
		var enqueued time.Time
		var reconciled atomic.Int32
		other := e.Start(part, reconciles(func(context.Context, object.Key) reconcile.Result {
			reconciled.Add(1)
			if waited := time.Since(enqueued); waited > 0 {
				t.Errorf("a change of another kind waited %s for its reconcile", waited)
			}
			return reconcile.Done()
		}), nil)
		for range 20 {
			<-time.After(7 * time.Second)
			enqueued = time.Now()
			other.Enqueue(key("a"), watch.Urgent)
			synctest.Wait()
		}
		if n := reconciled.Load(); n != 20 {
			t.Errorf("%d of 20 changes were reconciled", n)
		}
	})
}

func TestWatchStateIsReported(t *testing.T) {
	onWorld(t, 1, func(w *world, e *Engine) {
		var changes atomic.Int32
		c := e.Start(widget, &witness{}, func() { changes.Add(1) })
		synctest.Wait()
		if got := c.State().Phase; got != watch.Synced || changes.Load() == 0 {
			t.Errorf("the watch is %s, which was reported %d times", got, changes.Load())
		}
		before := changes.Load()
		w.dropKind()
		e.Hub.KindChanged(widget.GroupKind(), watch.KindDeleted)
		synctest.Wait()
		if got := c.State().Phase; got != watch.Unavailable || changes.Load() == before {
			t.Errorf("the kind is gone; its watch is %s, which was reported %d times", got, changes.Load()-before)
		}
	})
}
