package main

import (
	"context"
	"fmt"
	"time"
)

// creations are the measurements of making instances, round by round.
type creations struct {
	raw, whole, engine []cost
	requests           requests
	// aloneRaw and aloneEngine are of instances that are made one by one.
	aloneRaw, aloneEngine []time.Duration
}

// cost is what it took to make the instances of one round.
type cost struct {
	clock time.Duration
	processor
}

// effort measures what something takes that measures its own time.
func (b *bench) effort(ctx context.Context, do func() (time.Duration, error)) (cost, error) {
	before, err := b.processor(ctx)
	if err != nil {
		return cost{}, err
	}
	took, err := do()
	if err != nil {
		return cost{}, err
	}
	after, err := b.processor(ctx)
	return cost{took, after.minus(before)}, err
}

// round makes the instances by the raw writer, by the one that also writes claim
// and status, and by the engine, in turns who is first.
func (f flatInstances) round(ctx context.Context, raw rawWriter, round int, into *creations) error {
	whole := raw
	whole.whole = true
	turns := []func() error{
		func() error { return f.createByRaw(ctx, raw, numberedName("raw", round), &into.raw) },
		func() error { return f.createByEngine(ctx, round, into) },
		func() error { return f.createByRaw(ctx, whole, numberedName("whole", round), &into.whole) },
	}
	for i := range turns {
		if err := turns[(round+i)%len(turns)](); err != nil {
			return err
		}
	}
	return nil
}

func (f flatInstances) createByRaw(ctx context.Context, raw rawWriter, prefix string, into *[]cost) error {
	if _, err := f.awaitQuiet(ctx); err != nil {
		return err
	}
	took, err := f.effort(ctx, func() (time.Duration, error) { return raw.create(ctx, f.workers, f.instances, prefix) })
	if err != nil {
		return err
	}
	*into = append(*into, took)
	return raw.deleteAll(ctx)
}

func (f flatInstances) createByEngine(ctx context.Context, round int, into *creations) error {
	var took cost
	own := requests{{"POST", f.plural}: f.instances}
	r, err := f.countRequests(ctx, "fresh instances", f.instances, own, func() (err error) {
		took, err = f.effort(ctx, func() (time.Duration, error) {
			return f.create(ctx, roundPrefix(round), f.instances)
		})
		return err
	})
	into.engine = append(into.engine, took)
	into.requests = into.requests.plus(r)
	return err
}

// measureSequential makes instances one after the other, each way, on a machine that has
// nothing else to do: how long one user waits.
func (f flatInstances) measureSequential(ctx context.Context, raw *rawWriter, into *creations) error {
	for i := range 30 {
		name := numberedName("alone", i)
		took, err := raw.create(ctx, 1, 1, "raw-"+name)
		if err != nil {
			return err
		}
		into.aloneRaw = append(into.aloneRaw, took)
		if took, err = f.create(ctx, name, 1); err != nil {
			return err
		}
		into.aloneEngine = append(into.aloneEngine, took)
		if _, err := f.delete(ctx, name, 1); err != nil {
			return err
		}
	}
	return raw.deleteAll(ctx)
}

func (r *creations) rows(instances int) []row {
	rounds := ratios(r.engine, r.raw)
	return []row{
		{Work: "a fresh instance with 5 children in 3 levels", Unit: "requests", Budget: 9,
			Value: float64(r.requests.of(work)) / float64(instances*len(r.engine))},
		{Work: fmt.Sprintf("time of %d such instances", instances), Unit: "× raw", Value: median(rounds), Budget: 1.3, Samples: rounds,
			Detail: fmt.Sprintf("rounds from %.2f to %.2f", minimum(rounds), most(rounds))},
	}
}

// notes tell what the time of a fresh instance consists of.
func (r *creations) notes(instances int) []string {
	cost := func(what string, of []cost) string {
		each := func(which func(cost) time.Duration) float64 { return medianOf(of, which) / float64(instances) }
		return fmt.Sprintf("a fresh instance by the %s: %.1f ms; processor time: API server %.1f ms, client %.1f ms", what,
			each(func(e cost) time.Duration { return e.clock }),
			each(func(e cost) time.Duration { return e.server }),
			each(func(e cost) time.Duration { return e.here }))
	}
	return []string{
		cost("engine", r.engine),
		cost("raw writer", r.raw),
		cost("raw writer that also writes claim and status", r.whole) +
			fmt.Sprintf("; the engine takes %.2f × its time", median(ratios(r.engine, r.whole))),
		fmt.Sprintf("made one by one: engine %.0f ms, raw writer %.0f ms",
			milliseconds(median(r.aloneEngine)), milliseconds(median(r.aloneRaw))),
	}
}

// ratios compares the clock round by round.
func ratios(of, to []cost) []float64 {
	out := make([]float64, len(of))
	for i := range of {
		out[i] = of[i].clock.Seconds() / to[i].clock.Seconds()
	}
	return out
}

// medianOf is the median of one measure, in milliseconds.
func medianOf(of []cost, which func(cost) time.Duration) float64 {
	all := make([]time.Duration, len(of))
	for i, e := range of {
		all[i] = which(e)
	}
	return milliseconds(median(all))
}
