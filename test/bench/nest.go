package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	nests   = 20  // created and deleted, one after the other
	changes = 100 // of the value at the bottom of one of them
)

// measureNest measures how a status value propagates through three nested instances, and how these
// are deleted.
func measureNest(ctx context.Context, b *bench) error {
	n, err := b.nest(ctx, "Top", "tops")
	if err != nil {
		return err
	}
	defer n.seen.stop()
	for _, measure := range []func(context.Context) error{n.warmUp, n.measureLateValue, n.measureChange, n.measureChangeBeside, n.measureDeletion} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// nest is nested instances around a Leaf, of which the outermost is of a kind, and a watch of these.
type nest struct {
	*bench
	kind, plural string
	seen         *watchStream
}

func (b *bench) nest(ctx context.Context, kind, plural string) (nest, error) {
	w, err := b.watch(ctx, ours(plural))
	return nest{b, kind, plural, w}, err
}

// warmUp creates and deletes a nest, so that watches are synced.
func (n nest) warmUp(ctx context.Context) error {
	const name = "warm"
	if err := n.create(ctx, name); err != nil {
		return err
	}
	if _, err := n.writeValue(ctx, name, "first", isReady(1)); err != nil {
		return err
	}
	_, err := n.delete(ctx, name)
	return err
}

// measureLateValue measures from the write of the value that all three wait for until the outermost
// has created what depends on it and is ready.
func (n nest) measureLateValue(ctx context.Context) error {
	var took []time.Duration
	for i := range nests {
		name := numberedName("nest", i)
		if err := n.create(ctx, name); err != nil {
			return err
		}
		one, err := n.writeValue(ctx, name, "first", isReady(1))
		if err != nil {
			return err
		}
		took = append(took, one)
	}
	n.add(row{Work: "3 nested instances: from the value that they wait for until the outermost is ready", Unit: "ms", Value: milliseconds(median(took)), Samples: inMilliseconds(took), Budget: 50,
		Detail: fmt.Sprintf("median of %d, p99 %.0f ms", nests, milliseconds(quantile(took, 0.99)))})
	return nil
}

// measureChange measures from a change of the value until the status of the outermost has it.
func (n nest) measureChange(ctx context.Context) error {
	name := numberedName("nest", 0)
	var took []time.Duration
	r, err := n.countRequests(ctx, "change a status value below 3 nested instances", changes, requests{{"PATCH", "leaves/status"}: changes}, func() error {
		var err error
		took, err = n.measurePropagation(ctx, name)
		return err
	})
	if err != nil {
		return err
	}
	n.add(
		row{Work: "3 nested instances: from a changed value until the outermost status has it, p50", Unit: "ms", Value: milliseconds(median(took)), Samples: inMilliseconds(took), Budget: 50,
			Detail: fmt.Sprintf("%.1f requests per change", float64(r.of(work))/changes)},
		row{Work: "3 nested instances: from a changed value until the outermost status has it, p99", Unit: "ms", Value: milliseconds(quantile(took, 0.99)), Budget: 50,
			Detail: fmt.Sprintf("of %d changes, at most %.0f ms", changes, milliseconds(quantile(took, 1)))})
	return nil
}

// measureChangeBeside is measureChange while instances of another kind are created, all at once, again and again.
func (n nest) measureChangeBeside(ctx context.Context) (err error) {
	f, err := n.flats(ctx, "Flat", "flats")
	if err != nil {
		return err
	}
	defer f.seen.stop()
	prefix := func(round int) string { return fmt.Sprintf("beside-%d", round) }
	if _, err := f.create(ctx, prefix(0), n.workers); err != nil { // so that the kind is watched
		return err
	}
	var took []time.Duration
	created := 0 // rounds
	var measured atomic.Bool
	g, running := errgroup.WithContext(ctx)
	g.Go(func() error {
		for ; created == 0 || !measured.Load(); created++ {
			if _, err := f.create(running, prefix(created+1), n.instances); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() (err error) {
		defer measured.Store(true)
		took, err = n.measurePropagation(running, numberedName("nest", 0))
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	work := fmt.Sprintf("3 nested instances, while %d others are created: from a changed value until the outermost status has it, ", n.instances)
	n.add(
		row{Work: work + "p50", Unit: "ms", Value: milliseconds(median(took)), Samples: inMilliseconds(took), Budget: 10,
			Detail: fmt.Sprintf("of %d changes, during %d rounds of creations", len(took), created)},
		row{Work: work + "p99", Unit: "ms", Value: milliseconds(quantile(took, 0.99)), Budget: 30, Detail: fmt.Sprintf("at most %.0f ms", milliseconds(quantile(took, 1)))})
	if _, err := f.delete(ctx, prefix(0), n.workers); err != nil {
		return err
	}
	for round := range created {
		if _, err := f.delete(ctx, prefix(round+1), n.instances); err != nil {
			return err
		}
	}
	return nil
}

// measureDeletion measures from the response to a deletion until the outermost is gone, which is
// deleted last.
func (n nest) measureDeletion(ctx context.Context) error {
	var took []time.Duration
	r, err := n.countRequests(ctx, "delete 3 nested instances", nests, requests{{"DELETE", n.plural}: nests}, func() error {
		for i := range nests {
			one, err := n.delete(ctx, numberedName("nest", i))
			if err != nil {
				return err
			}
			took = append(took, one)
		}
		return nil
	})
	if err != nil {
		return err
	}
	n.add(row{Work: "delete 3 nested instances without blockers", Unit: "ms", Value: milliseconds(median(took)), Samples: inMilliseconds(took), Budget: 150,
		Detail: fmt.Sprintf("median of %d, at most %.0f ms; %.1f requests", nests, milliseconds(quantile(took, 1)), float64(r.of(work))/nests)})
	return nil
}

// create creates a nest, and waits until its outermost instance waits for the value.
func (n nest) create(ctx context.Context, name string) error {
	if _, err := n.resource(ours(n.plural)).Create(ctx, instance(n.kind, name), metav1.CreateOptions{FieldManager: manager}); err != nil {
		return err
	}
	leaves, err := n.watch(ctx, ours("leaves"))
	if err != nil {
		return err
	}
	defer leaves.stop()
	if _, err := leaves.await(ctx, withPrefix(name, func(watch.EventType, *unstructured.Unstructured) bool { return true })); err != nil {
		return err
	}
	_, err = n.awaitQuiet(ctx)
	return err
}

// measurePropagation changes the value at the bottom of a nest repeatedly, and returns how long it
// took each time until the status of the outermost instance had it.
func (n nest) measurePropagation(ctx context.Context, name string) ([]time.Duration, error) {
	var took []time.Duration
	for i := range changes {
		value := fmt.Sprintf("value %d", i)
		one, err := n.writeValue(ctx, name, value, func(_ watch.EventType, o *unstructured.Unstructured) bool {
			shown, _, _ := unstructured.NestedString(o.Object, "status", "value")
			return shown == value
		})
		if err != nil {
			return nil, err
		}
		took = append(took, one)
	}
	return took, nil
}

// writeValue writes the value, and returns how long it took from the response until the outermost
// instance passed the check.
func (n nest) writeValue(ctx context.Context, name, value string, check check) (time.Duration, error) {
	patch := fmt.Appendf(nil, `{"status":{"value":%q}}`, value)
	if _, err := n.resource(ours("leaves")).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager}, "status"); err != nil {
		return 0, err
	}
	return n.since(ctx, time.Now(), withPrefix(name, check))
}

func (n nest) delete(ctx context.Context, name string) (time.Duration, error) {
	if err := n.resource(ours(n.plural)).Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return 0, err
	}
	return n.since(ctx, time.Now(), withPrefix(name, isGone))
}

func (n nest) since(ctx context.Context, began time.Time, check check) (time.Duration, error) {
	at, err := n.seen.await(ctx, check)
	return max(0, at.Sub(began)), err
}
