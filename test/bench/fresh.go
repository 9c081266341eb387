package main

import (
	"context"
	"fmt"
	"time"
)

// creations are the measurements of creating instances, round by round: by the plain client, by
// the plain client that writes everything, and by the controllers.
type creations struct {
	raw, whole, engine []cost
	requests           requests
	// aloneRaw and aloneEngine are of instances that are created one at a time.
	aloneRaw, aloneEngine []time.Duration
}

// cost is the time of creating the instances of one round.
type cost struct {
	clock time.Duration
	processor
}

// effort adds the CPU time to the time that do returns.
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

// round creates the instances by both plain clients and by the controllers. Each round begins
// with another one of the three.
func (f flatInstances) round(ctx context.Context, raw rawWriter, round int, into *creations) error {
	whole := raw
	whole.whole = true
	creators := []func() error{
		func() error { return f.createByRaw(ctx, raw, numberedName("raw", round), &into.raw) },
		func() error { return f.createByEngine(ctx, round, into) },
		func() error { return f.createByRaw(ctx, whole, numberedName("whole", round), &into.whole) },
	}
	for i := range creators {
		if err := creators[(round+i)%len(creators)](); err != nil {
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
	r, err := f.countRequests(ctx, "create instances", f.instances, own, func() (err error) {
		took, err = f.effort(ctx, func() (time.Duration, error) {
			return f.create(ctx, roundPrefix(round), f.instances)
		})
		return err
	})
	into.engine = append(into.engine, took)
	into.requests = into.requests.plus(r)
	return err
}

// measureSequential creates one instance at a time, by the plain client and by the controllers.
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
		{Work: "create an instance with 5 children in 3 levels", Unit: "requests", Budget: 9,
			Value: float64(r.requests.of(work)) / float64(instances*len(r.engine))},
		{Work: fmt.Sprintf("create %d such instances", instances), Unit: "× plain client", Value: median(rounds), Budget: 1.3, Samples: rounds,
			Detail: fmt.Sprintf("rounds from %.2f to %.2f", minimum(rounds), most(rounds))},
	}
}

// notes compare the times of the controllers and the plain client.
func (r *creations) notes(instances int) []string {
	cost := func(what string, of []cost) string {
		each := func(which func(cost) time.Duration) float64 { return medianOf(of, which) / float64(instances) }
		return fmt.Sprintf("create an instance, %s: %.1f ms; CPU time: API server %.1f ms, client %.1f ms", what,
			each(func(e cost) time.Duration { return e.clock }),
			each(func(e cost) time.Duration { return e.server }),
			each(func(e cost) time.Duration { return e.here }))
	}
	return []string{
		cost("controllers", r.engine),
		cost("plain client", r.raw),
		cost("plain client that also writes labels, inventory and status", r.whole) +
			fmt.Sprintf("; the controllers take %.2f × its time", median(ratios(r.engine, r.whole))),
		fmt.Sprintf("create one instance at a time: controllers %.0f ms, plain client %.0f ms",
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
