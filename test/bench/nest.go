package main

import (
	"context"
	"fmt"
	"math"
	"time"

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
	if err := b.installKindCopy(ctx, "leaves."+group, "PlainLeaf", "plainleaves"); err != nil {
		return err
	}
	for _, measure := range []func(context.Context) error{n.warmUp, n.measureLateValue, n.measureChange, n.measureDeletion} {
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
	n.add(row{Work: "3 nested instances: from the value that they wait for until the outermost is ready", Unit: "ms", Value: milliseconds(median(took)),
		Samples: inMilliseconds(took), Budget: 50,
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
	writes := int(math.Round(float64(r.of(work)) / changes))
	raw, err := n.measureSequence(ctx, changes, 1, func(leaf string) error { return n.patchStatus(ctx, leaf, writes) })
	if err != nil {
		return err
	}
	n.add(row{Work: "3 nested instances: from a changed value until the outermost status has it", Unit: "× as many writes of a plain client",
		Value: multiple(took, raw), Budget: 2,
		Detail: fmt.Sprintf("%d writes; median of %d changes %.1f ms, p99 %.0f ms, at most %.0f ms; plain client %.1f ms", writes, changes,
			milliseconds(median(took)), milliseconds(quantile(took, 0.99)), milliseconds(quantile(took, 1)), milliseconds(median(raw)))})
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
	// Half of the writes are deletions, and half of them remove finalizers.
	pairs := int(math.Round(float64(r.of(work)) / nests / 2))
	raw, err := n.measureSequence(ctx, nests, pairs, func(leaf string) error { return n.deleteLeaf(ctx, leaf) })
	if err != nil {
		return err
	}
	n.add(row{Work: "delete 3 nested instances without blockers", Unit: "× as many writes of a plain client", Value: multiple(took, raw), Budget: 2,
		Detail: fmt.Sprintf("%d writes; median of %d %.1f ms, at most %.0f ms; plain client %.1f ms", 2*pairs, nests, milliseconds(median(took)),
			milliseconds(quantile(took, 1)), milliseconds(median(raw)))})
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
