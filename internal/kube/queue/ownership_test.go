package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/kube/fence"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
)

// owners owns the objects of some names.
type owners struct {
	mu     sync.Mutex
	tenure *fence.Tenure
	names  []string
}

func (o *owners) own(epoch int64, names ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.tenure != nil {
		o.tenure.End()
	}
	o.tenure, o.names = &fence.Tenure{Holder: "here", Epoch: epoch, Taken: time.Now()}, names
}

func (o *owners) Owns(key object.Key) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.names, key.Name)
}

func (o *owners) Begin(ctx context.Context, key object.Key) (context.Context, func()) {
	if !o.Owns(key) {
		return ctx, nil
	}
	return fence.With(ctx, o.tenure), func() {}
}

// journal records reconciles, with the right to write, and disowned objects.
type journal struct {
	follows bool
	mu      sync.Mutex
	did     []string
}

func (j *journal) Follows() bool { return j.follows }

func (j *journal) add(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.did = append(j.did, text)
}

func (j *journal) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	if !fence.MayWrite(ctx) {
		j.add("follow " + key.Name)
		return reconcile.Fail(fmt.Errorf("write: %w", fence.ErrNotOwner))
	}
	j.add("reconcile " + key.Name)
	return reconcile.Done()
}

func (j *journal) Disown(key object.Key) { j.add("disown " + key.Name) }

// take returns what was done since the last call, sorted.
func (j *journal) take() []string {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	did := j.did
	j.did = nil
	slices.Sort(did)
	return did
}

func TestAReplicaReconcilesWhatItOwns(t *testing.T) {
	onWorld(t, 3, func(_ *world, e *Engine) {
		mine := &owners{}
		mine.own(1, "w0")
		e.Ownership = mine
		j := &journal{}
		c := e.Start(widget, j, nil)
		expect(t, "at the start", j, "disown w0", "reconcile w0")
		c.Enqueue(widgetKey(0), 0)
		c.Enqueue(widgetKey(1), 0)
		expect(t, "after events", j, "reconcile w0")

		mine.own(2, "w1", "w2")
		e.Moved(func(key object.Key) bool { return true })
		expect(t, "after a move", j, "disown w0", "disown w1", "disown w2", "reconcile w1", "reconcile w2")
		mine.own(3, "w0", "w1")
		e.Moved(func(key object.Key) bool { return key.Name != "w1" })
		expect(t, "after another move", j, "disown w0", "disown w2", "reconcile w0")
		c.Enqueue(widgetKey(1), 0)
		expect(t, "in a later tenure", j, "disown w1", "reconcile w1")
		c.Stop()
	})
}

func TestTheObjectsOfAReplicaAreThoseThatItOwns(t *testing.T) {
	onWorld(t, 3, func(_ *world, e *Engine) {
		mine := &owners{}
		mine.own(1, "w0", "w2", "w7")
		e.Ownership = mine
		for _, follows := range []bool{false, true} {
			c := e.Start(widget, &journal{follows: follows}, nil)
			synctest.Wait()
			var got []string
			for _, o := range e.Objects(widget) {
				got = append(got, o.GetName())
			}
			slices.Sort(got)
			if diff := cmp.Diff([]string{"w0", "w2"}, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			c.Stop()
		}
		e.Ownership = nil
		defer e.Start(widget, &journal{}, nil).Stop()
		synctest.Wait()
		if got := len(e.Objects(widget)); got != 3 {
			t.Errorf("%d objects without other replicas", got)
		}
	})
}

// TestATakeoverReadsWhatTheCacheMayLack takes objects over while the watch is late: another replica may have written
// them, or deleted them with what they had. Those that were created afterwards it cannot know.
func TestATakeoverReadsWhatTheCacheMayLack(t *testing.T) {
	onWorld(t, 3, func(w *world, e *Engine) {
		mine := &owners{}
		mine.own(1, "w0")
		e.Ownership = mine
		j := &journal{}
		c := e.Start(widget, j, nil)
		expect(t, "at the start", j, "disown w0", "reconcile w0")
		expectReads(t, "at the start: the caches have just been filled", w, 0, 0)

		<-time.After(time.Second)
		w.late = true
		w.remove(1)
		mine.own(2, "w0", "w1", "w2", "w3", "w4")
		e.Moved(func(object.Key) bool { return true })
		expect(t, "after a takeover", j, "disown w0", "disown w1", "disown w2", "reconcile w0", "reconcile w2")
		expectReads(t, "after a takeover: each object, and the revision of the kind", w, 3, 1)

		w.late = false
		w.add(3)
		expect(t, "after a creation", j, "disown w3", "reconcile w3")
		w.add(4)
		expect(t, "after another creation", j, "disown w4", "reconcile w4")
		expectReads(t, "after creations: nothing that another replica knew", w, 0, 0)

		mine.own(3, "w3")
		c.Enqueue(widgetKey(3), 0)
		expect(t, "after another takeover", j, "disown w3", "reconcile w3")
		expectReads(t, "after another takeover", w, 1, 1)
		c.Stop()
	})
}

// expectReads compares the reads since the last call.
func expectReads(t *testing.T, when string, w *world, gets, pages int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gets != gets || w.pages != pages {
		t.Errorf("%s: got %d objects and %d lists, want %d and %d", when, w.gets, w.pages, gets, pages)
	}
	w.gets, w.pages = 0, 0
}

func TestAFollowerReconcilesEverythingAndWritesNothingOfOthers(t *testing.T) {
	onWorld(t, 2, func(_ *world, e *Engine) {
		mine := &owners{}
		mine.own(1, "w0")
		e.Ownership = mine
		j := &journal{follows: true}
		c := e.Start(widget, j, nil)
		expect(t, "at the start", j, "disown w0", "follow w1", "reconcile w0")
		mine.own(2, "w1")
		e.Moved(func(key object.Key) bool { return key.Name == "w1" })
		expect(t, "after a move", j, "disown w1", "follow w0", "reconcile w1")
		c.Stop()
	})
}

func expect(t *testing.T, when string, j *journal, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, j.take()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}
