package main

import (
	"context"
	"fmt"
	"time"
)

// fresh are the measurements of making instances, round by round.
type fresh struct {
	raw, engine []effort
	requests    requests
}

// effort is what it took to make the instances of one round.
type effort struct {
	clock time.Duration
	processor
}

// effort measures what something takes that measures its own time.
func (b *bench) effort(ctx context.Context, do func() (time.Duration, error)) (effort, error) {
	before, err := b.processor(ctx)
	if err != nil {
		return effort{}, err
	}
	took, err := do()
	if err != nil {
		return effort{}, err
	}
	after, err := b.processor(ctx)
	return effort{took, after.minus(before)}, err
}

// round makes the instances once by the raw writer and once by the engine, in
// turns who is first.
func (f flats) round(ctx context.Context, raw *raw, round int, into *fresh) error {
	turns := []func() error{
		func() error { return f.byRaw(ctx, raw, round, into) },
		func() error { return f.byEngine(ctx, round, into) },
	}
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

func (f flats) byRaw(ctx context.Context, raw *raw, round int, into *fresh) error {
	if _, err := f.settled(ctx); err != nil {
		return err
	}
	took, err := f.effort(ctx, func() (time.Duration, error) {
		return raw.make(ctx, f.instances, fmt.Sprintf("raw-%d", round))
	})
	if err != nil {
		return err
	}
	into.raw = append(into.raw, took)
	return raw.clear(ctx)
}

func (f flats) byEngine(ctx context.Context, round int, into *fresh) error {
	var took effort
	own := requests{{"POST", "flats"}: f.instances}
	r, err := f.during(ctx, "fresh instances", f.instances, own, func() (err error) {
		took, err = f.effort(ctx, func() (time.Duration, error) {
			return f.make(ctx, prefixOf(round), f.instances)
		})
		return err
	})
	into.engine = append(into.engine, took)
	into.requests = into.requests.plus(r)
	return err
}

func (r *fresh) rows(instances int) []row {
	ratios := make([]float64, len(r.raw))
	for i := range r.raw {
		ratios[i] = r.engine[i].clock.Seconds() / r.raw[i].clock.Seconds()
	}
	// each is the median over the rounds of what one instance took.
	each := func(of []effort, what func(effort) time.Duration) float64 {
		var all []time.Duration
		for _, e := range of {
			all = append(all, what(e))
		}
		return milliseconds(median(all)) / float64(instances)
	}
	clock := func(e effort) time.Duration { return e.clock }
	server := func(e effort) time.Duration { return e.server }
	here := func(e effort) time.Duration { return e.here }
	return []row{
		{Work: "a fresh instance with 5 children in 3 levels", Unit: "requests", Value: float64(r.requests.of(work)) / float64(instances*len(r.engine)), Budget: 9},
		{Work: fmt.Sprintf("time of %d such instances", instances), Unit: "× raw", Value: median(ratios), Budget: 1.3,
			Detail: fmt.Sprintf("%.1f ms each, raw %.1f ms; rounds from %.2f to %.2f; processor time each: API server %.1f ms, raw %.1f; engine and user %.1f, raw writer %.1f",
				each(r.engine, clock), each(r.raw, clock), least(ratios), most(ratios),
				each(r.engine, server), each(r.raw, server), each(r.engine, here), each(r.raw, here))},
	}
}
