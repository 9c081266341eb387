package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

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
	o.tenure, o.names = &fence.Tenure{Holder: "here", Epoch: epoch}, names
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
