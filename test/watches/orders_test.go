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

// concurrency is how many lifecycles run at once.
const concurrency = 16

// TestSweepKindsAreDeletedInEveryOrder repeatedly creates the same kinds, and deletes the composed
// kind, the definition's kind, the definition and the instances in every order, or all at once:
// afterwards the controllers use no more than before.
func TestSweepKindsAreDeletedInEveryOrder(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	c := run(t, config)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	var lifecycles [concurrency]*lifecycle
	for i := range lifecycles {
		lifecycles[i] = &lifecycle{client, testkit.Group(t), testkit.Namespace(t, config)}
	}
	all := deletionOrders()
	counter := newCounter(t, config, c)
	if err := lifecycles[0].run(t.Context(), t, all[0], 0); err != nil {
		t.Fatal(err)
	}
	base := counter.baseline(t) // after one lifecycle, which allocates what stays

	repetitions := testkit.Size(len(all), 1000)
	began := time.Now()
	var next, done atomic.Int64
	var busy sync.WaitGroup
	for _, p := range lifecycles {
		busy.Go(func() {
			for n := next.Add(1); n <= int64(repetitions) && !t.Failed(); n = next.Add(1) {
				// Each round begins with another order, so that each lifecycle meets all orders.
				order := all[(int(n)+int(n)/len(all))%len(all)]
				if err := p.run(t.Context(), t, order, int(n)); err != nil {
					t.Errorf("lifecycle %d in %s, deleted in the order %v: %v", n, p.group, order, err)
				}
				done.Add(1)
			}
		})
	}
	busy.Wait()
	if t.Failed() {
		t.FailNow()
	}
	took := time.Since(began)
	after := counter.awaitBaseline(t, base)
	testkit.Report(t, "watches: %d lifecycles of kinds, definitions and instances, deleted in %d orders, in %.0f s; %d reconciles failed and were retried; before %s; after %s",
		done.Load(), len(all), took.Seconds(), c.failures.Load(), base, after)
}

// run creates and deletes everything once. Each wait has a limit of its own: how long all of them take depends on the machine.
func (p *lifecycle) run(ctx context.Context, t *testing.T, order []part, n int) error {
	if err := p.create(ctx, t, "a", "b"); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := p.end(ctx, order); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if err := p.awaitGone(ctx); err != nil {
		return fmt.Errorf("await the deletion: %w", err)
	}
	return nil
}

// end deletes the parts in an order, or all at once where the order is empty.
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
