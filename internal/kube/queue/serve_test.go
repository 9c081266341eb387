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
	"github.com/espalier-dev/espalier/internal/reconcile"
)

// witness notes what it was asked to reconcile, and takes its time over it.
type witness struct {
	mu   sync.Mutex
	seen map[string]int
	pass func(key object.Key)
}

func (w *witness) Reconcile(_ context.Context, key object.Key) reconcile.Result {
	if w.pass != nil {
		w.pass(key)
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
				t.Errorf("round %d: %d of %d objects were looked at", round, got, widgets)
			}
			c.Stop() // the watch outlives this, and reports all it holds to the next
		}
	})
}

func TestASuccessorWaitsForReconcilesOfItsPredecessor(t *testing.T) {
	onWorld(t, 8, func(_ *world, e *Engine) {
		var mu sync.Mutex
		working := map[string]bool{}
		pass := func(key object.Key) {
			mu.Lock()
			if working[key.Name] {
				t.Errorf("%s is worked on twice at once", key.Name)
			}
			working[key.Name] = true
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			working[key.Name] = false
			mu.Unlock()
		}
		e.Start(widget, &witness{pass: pass}, nil)
		synctest.Wait()
		old := e.Start(widget, &witness{pass: pass}, nil)
		<-time.After(time.Second / 2)
		last := &witness{pass: pass}
		var starts sync.WaitGroup
		for range 3 { // of those that start at once, one is left
			starts.Go(func() { e.Start(widget, last, nil) })
		}
		starts.Wait()
		old.Stop() // late: it hits none of its successors
		<-time.After(time.Minute)
		if got := last.count(); got != 8 {
			t.Errorf("the last controller looked at %d of 8 objects", got)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.running) != 1 || e.running[widget.GroupKind()].reconciler != last {
			t.Errorf("the last controller was stopped with its predecessor")
		}
	})
}

// TestAKindWhosePassesHang: a webhook of one kind doesn't answer, and every pass
// over its objects takes until its timeout.
func TestAHangingKindLeavesWorkersToOthers(t *testing.T) {
	onWorld(t, 1000, func(_ *world, e *Engine) {
		e.Start(widget, reconciles(hangs), nil)
		synctest.Wait()
		var asked time.Time
		var looks atomic.Int32
		other := e.Start(part, reconciles(func(context.Context, object.Key) reconcile.Result {
			looks.Add(1)
			if waited := time.Since(asked); waited > 0 {
				t.Errorf("a person's change to another kind waited %s for its pass", waited)
			}
			return reconcile.Done()
		}), nil)
		for range 20 {
			<-time.After(7 * time.Second)
			asked = time.Now()
			other.Enqueue(key("a"), watch.Urgent)
			synctest.Wait()
		}
		if n := looks.Load(); n != 20 {
			t.Errorf("%d of 20 changes were looked at", n)
		}
	})
}

func TestWatchStateIsReported(t *testing.T) {
	onWorld(t, 1, func(w *world, e *Engine) {
		var news atomic.Int32
		c := e.Start(widget, &witness{}, func() { news.Add(1) })
		synctest.Wait()
		if got := c.State().Phase; got != watch.Synced || news.Load() == 0 {
			t.Errorf("the watch is %s, of which was told %d times", got, news.Load())
		}
		before := news.Load()
		w.dropKind()
		e.Hub.KindChanged(widget.GroupKind(), watch.KindDeleted)
		synctest.Wait()
		if got := c.State().Phase; got != watch.Unavailable || news.Load() == before {
			t.Errorf("the kind is gone; its watch is %s, of which was told %d times", got, news.Load()-before)
		}
	})
}
