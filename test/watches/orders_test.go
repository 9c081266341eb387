package watches

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/espalier-dev/espalier/internal/testkit"
)

// places is how many lives are lived concurrently.
const places = 16

// TestSweepKindsGoInEveryOrder lives through many lives of the same few kinds.
// Each ends in another order of its composed kind, its own kind, its definition
// and its instances, or with all of them deleted at once.
func TestSweepKindsGoInEveryOrder(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	c := run(t, config)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var where [places]*lifecycle
	for i := range where {
		where[i] = &lifecycle{client, testkit.Group(t), testkit.Namespace(t, config)}
	}
	all := deletionOrders()
	counter := newCounter(t, config, c)
	if err := where[0].run(t.Context(), t, all[0], 0); err != nil {
		t.Fatal(err)
	}
	base := counter.baseline(t) // after one life: what is made once is made

	lives := testkit.Size(len(all), 1000)
	began := time.Now()
	var next, lived atomic.Int64
	var busy sync.WaitGroup
	for _, p := range where {
		busy.Go(func() {
			for n := next.Add(1); n <= int64(lives) && !t.Failed(); n = next.Add(1) {
				// Each round takes the orders from another place on, so that all places see all orders.
				order := all[(int(n)+int(n)/len(all))%len(all)]
				if err := p.run(t.Context(), t, order, int(n)); err != nil {
					t.Errorf("life %d in %s, ended by %v: %v", n, p.group, order, err)
				}
				lived.Add(1)
			}
		})
	}
	busy.Wait()
	if t.Failed() {
		t.FailNow()
	}
	took := time.Since(began)
	after := counter.awaitBaseline(t, base)
	testkit.Report(t, "churn: %d lives of kinds, definitions and instances, deleted in %d orders, in %.0f s; %d passes failed and were repeated; before %s; after %s",
		lived.Load(), len(all), took.Seconds(), c.failures.Load(), base, after)
}

// run is one life, from the composed kind's installation until nothing is left.
func (p *lifecycle) run(ctx context.Context, t *testing.T, order []part, n int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if err := p.create(ctx, t, "a", "b"); err != nil {
		return fmt.Errorf("being born: %w", err)
	}
	if err := p.end(ctx, order); err != nil {
		return fmt.Errorf("ending: %w", err)
	}
	if err := p.awaitGone(ctx); err != nil {
		return fmt.Errorf("is not over: %w", err)
	}
	return nil
}

// end deletes the parts in an order, or all at once where that names none.
func (p *lifecycle) end(ctx context.Context, order []part) error {
	if len(order) > 0 {
		for i, which := range order {
			if err := p.drop(ctx, which, order[:i]); err != nil {
				return fmt.Errorf("%s: %w", which, err)
			}
		}
		return nil
	}
	var side sync.WaitGroup
	errs := make([]error, 4)
	for i, which := range []part{leaf, kind, definition, instances} {
		side.Go(func() { errs[i] = p.drop(ctx, which, nil) })
	}
	side.Wait()
	return errors.Join(errs...)
}
