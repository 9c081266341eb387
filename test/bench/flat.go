package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// measureFlat measures instances of five ConfigMaps: made, left alone, changed
// and deleted.
func measureFlat(ctx context.Context, b *bench) error {
	raw, err := b.warmUp(ctx)
	if err != nil {
		return err
	}
	var fresh freshRounds
	for round := range b.rounds {
		if err := b.freshRound(ctx, raw, round, &fresh); err != nil {
			return err
		}
		if round < b.rounds-1 {
			if _, err := b.deleteFlats(ctx, prefixOf(round), b.instances); err != nil {
				return err
			}
		}
	}
	b.add(fresh.rows(b.instances)...)
	last := prefixOf(b.rounds - 1)
	for _, measure := range []func(context.Context, string) error{b.idling, b.updating, b.deleting} {
		if err := measure(ctx, last); err != nil {
			return err
		}
	}
	return nil
}

func prefixOf(round int) string { return fmt.Sprintf("flat-%d", round) }

// warmUp makes and removes a few instances both ways, so that informers run and
// connections stand.
func (b *bench) warmUp(ctx context.Context) (*raw, error) {
	const few = 30
	if _, err := b.makeFlats(ctx, "warm", few); err != nil {
		return nil, err
	}
	raw, err := b.newRaw(ctx, nth("warm", 0))
	if err != nil {
		return nil, err
	}
	if _, err := raw.make(ctx, few, "cold"); err != nil {
		return nil, err
	}
	if err := raw.clear(ctx); err != nil {
		return nil, err
	}
	_, err = b.deleteFlats(ctx, "warm", few)
	return raw, err
}

// freshRounds are the measurements of making instances.
type freshRounds struct {
	raw, engine []time.Duration
	requests    requests
	rounds      int
}

// freshRound makes the instances once by the raw writer and once by the engine,
// in turns who is first.
func (b *bench) freshRound(ctx context.Context, raw *raw, round int, into *freshRounds) error {
	byRaw := func() error {
		if _, err := b.settled(ctx); err != nil {
			return err
		}
		took, err := raw.make(ctx, b.instances, fmt.Sprintf("raw-%d", round))
		into.raw = append(into.raw, took)
		if err != nil {
			return err
		}
		return raw.clear(ctx)
	}
	byEngine := func() error {
		own := requests{{"POST", "flats"}: b.instances}
		r, err := b.during(ctx, "fresh instances", b.instances, own, func() error {
			took, err := b.makeFlats(ctx, prefixOf(round), b.instances)
			into.engine = append(into.engine, took)
			return err
		})
		into.requests, into.rounds = into.requests.plus(r), into.rounds+1
		return err
	}
	turns := []func() error{byRaw, byEngine}
	if round%2 == 1 {
		turns[0], turns[1] = turns[1], turns[0]
	}
	for _, turn := range turns {
		if err := turn(); err != nil {
			return err
		}
	}
	return nil
}

func (f *freshRounds) rows(instances int) []row {
	ratios := make([]float64, len(f.raw))
	for i := range f.raw {
		ratios[i] = f.engine[i].Seconds() / f.raw[i].Seconds()
	}
	each := func(d []time.Duration) float64 { return milliseconds(median(d)) / float64(instances) }
	n := float64(instances * f.rounds)
	return []row{
		{Work: "a fresh instance with 5 children in 3 levels", Unit: "requests", Value: float64(f.requests.of(work)) / n, Budget: 9},
		{Work: fmt.Sprintf("time of %d such instances", instances), Unit: "× raw", Value: median(ratios), Budget: 1.3,
			Detail: fmt.Sprintf("%.1f ms each, raw %.1f ms; rounds from %.2f to %.2f", each(f.engine), each(f.raw), least(ratios), most(ratios))},
	}
}

// makeFlats makes n instances as users would, and returns how long it took from
// the first create until the last instance was ready.
func (b *bench) makeFlats(ctx context.Context, prefix string, n int) (time.Duration, error) {
	return b.withFlats(ctx, n, named(prefix, isReady(1)), func(ctx context.Context, i int) error {
		_, err := b.of(ours("flats")).Create(ctx, instance("Flat", nth(prefix, i)), metav1.CreateOptions{FieldManager: manager})
		return err
	})
}

// idling counts what is sent while nothing happens.
func (b *bench) idling(ctx context.Context, _ string) error {
	r, err := b.during(ctx, "nothing changes", b.instances, nil, func() error {
		select {
		case <-time.After(b.idle):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	b.add(row{Work: fmt.Sprintf("nothing changes for %s, with %d instances", b.idle, b.instances), Unit: "requests", Value: float64(r.of(work))})
	return err
}

// updating changes, in all instances, the one field that reaches all children.
func (b *bench) updating(ctx context.Context, prefix string) error {
	var took time.Duration
	own := requests{{"PATCH", "flats"}: b.instances}
	r, err := b.during(ctx, "one field that reaches 5 children", b.instances, own, func() (err error) {
		took, err = b.updateFlats(ctx, prefix, b.instances, 2)
		return err
	})
	if err != nil {
		return err
	}
	var single []time.Duration
	for i := range 30 {
		one, err := b.updateFlats(ctx, nth(prefix, i), 1, 3)
		if err != nil {
			return err
		}
		single = append(single, one)
	}
	b.add(row{Work: "one spec field that reaches 5 children", Unit: "requests", Value: float64(r.of(work)) / float64(b.instances), Budget: 7,
		Detail: fmt.Sprintf("%.0f ms alone; %.1f ms each when all %d change", milliseconds(median(single)), milliseconds(took)/float64(b.instances), b.instances)})
	return nil
}

// updateFlats changes the field in n instances, of which the prefix is the whole
// name if n is 1. It returns how long it took until all were ready again.
func (b *bench) updateFlats(ctx context.Context, prefix string, n, wording int) (time.Duration, error) {
	return b.withFlats(ctx, n, named(prefix, isReady(int64(wording))), func(ctx context.Context, i int) error {
		name := prefix
		if n > 1 {
			name = nth(prefix, i)
		}
		patch := fmt.Appendf(nil, `{"spec":{"text":%q}}`, text(name, wording))
		_, err := b.of(ours("flats")).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
		return err
	})
}

// deleting deletes all instances.
func (b *bench) deleting(ctx context.Context, prefix string) error {
	var took time.Duration
	own := requests{{"DELETE", "flats"}: b.instances}
	r, err := b.during(ctx, "deletion", b.instances, own, func() (err error) {
		took, err = b.deleteFlats(ctx, prefix, b.instances)
		return err
	})
	b.add(row{Work: "deletion of such an instance", Unit: "requests", Value: float64(r.of(work)) / float64(b.instances), Budget: 9,
		Detail: fmt.Sprintf("%.1f ms each when all %d go", milliseconds(took)/float64(b.instances), b.instances)})
	return err
}

// deleteFlats deletes n instances and returns how long it took until they were
// gone.
func (b *bench) deleteFlats(ctx context.Context, prefix string, n int) (time.Duration, error) {
	return b.withFlats(ctx, n, named(prefix, isGone), func(ctx context.Context, i int) error {
		return b.of(ours("flats")).Delete(ctx, nth(prefix, i), metav1.DeleteOptions{})
	})
}

// withFlats does something to n instances, side by side, and returns how long it
// took until as many had passed the check.
func (b *bench) withFlats(ctx context.Context, n int, check check, do func(ctx context.Context, i int) error) (time.Duration, error) {
	w, err := b.watch(ctx, ours("flats"))
	if err != nil {
		return 0, err
	}
	defer w.Stop()
	var last time.Time
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		last, err = w.untilAll(ctx, n, check)
		return err
	})
	g.Go(func() error { return sideBySide(ctx, b.workers, n, do) })
	err = g.Wait()
	return last.Sub(began), err
}
