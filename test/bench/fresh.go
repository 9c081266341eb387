package main

import (
	"context"
	"fmt"
	"time"
)

// rounds are the measurements of creating and deleting instances, round by round, by the plain client
// and by the controllers.
type rounds struct {
	created, deleted comparison
	requests         requests // of the creations by the controllers
	// alone is of instances that are created one at a time.
	alone struct{ raw, engine []time.Duration }
}

// comparison is what the same work costs the plain client and the controllers, round by round.
type comparison struct{ raw, engine []cost }

// cost is the wall time and the CPU time of one round.
type cost struct {
	wall time.Duration
	cpuTime
}

func (c cost) plus(d cost) cost { return cost{c.wall + d.wall, c.cpuTime.plus(d.cpuTime)} }

// effort adds the CPU time to the time that do returns.
func (b *bench) effort(ctx context.Context, do func() (time.Duration, error)) (cost, error) {
	before, err := b.cpuTime(ctx)
	if err != nil {
		return cost{}, err
	}
	took, err := do()
	if err != nil {
		return cost{}, err
	}
	after, err := b.cpuTime(ctx)
	return cost{took, after.minus(before)}, err
}

// round creates and deletes the instances by the plain client and by the controllers. Each round
// begins with the other one of the two.
func (f flatInstances) round(ctx context.Context, raw *rawWriter, round int, into *rounds) error {
	name := numberedName("raw", round)
	steps := []func() error{
		func() error {
			return f.measureRaw(ctx, &into.created, func() (time.Duration, error) { return raw.create(ctx, f.workers, f.instances, name) })
		},
		func() error { return f.createByEngine(ctx, round, into) },
		func() error {
			return f.measureRaw(ctx, &into.deleted, func() (time.Duration, error) { return raw.delete(ctx, f.workers, f.instances, name) })
		},
		func() error { return f.deleteByEngine(ctx, round, into) },
	}
	for i := range steps {
		if err := steps[i^(round&1)](); err != nil {
			return err
		}
	}
	return nil
}

func (f flatInstances) measureRaw(ctx context.Context, into *comparison, do func() (time.Duration, error)) error {
	if _, err := f.awaitQuiet(ctx); err != nil {
		return err
	}
	took, err := f.effort(ctx, do)
	into.raw = append(into.raw, took)
	return err
}

func (f flatInstances) createByEngine(ctx context.Context, round int, into *rounds) error {
	var took cost
	own := requests{{"POST", f.gvr.Resource}: f.instances}
	r, err := f.countRequests(ctx, "create instances", f.instances, own, func() (err error) {
		took, err = f.effort(ctx, func() (time.Duration, error) {
			return f.create(ctx, roundPrefix(round), f.instances)
		})
		return err
	})
	into.created.engine = append(into.created.engine, took)
	into.requests = into.requests.plus(r)
	return err
}

func (f flatInstances) deleteByEngine(ctx context.Context, round int, into *rounds) error {
	if _, err := f.awaitQuiet(ctx); err != nil {
		return err
	}
	took, err := f.effort(ctx, func() (time.Duration, error) { return f.delete(ctx, roundPrefix(round), f.instances) })
	into.deleted.engine = append(into.deleted.engine, took)
	return err
}

// measureSequential creates one instance at a time, by the plain client and by the controllers.
func (f flatInstances) measureSequential(ctx context.Context, raw *rawWriter, into *rounds) error {
	for i := range 30 {
		name := numberedName("alone", i)
		took, err := raw.create(ctx, 1, 1, "raw-"+name)
		if err != nil {
			return err
		}
		into.alone.raw = append(into.alone.raw, took)
		if took, err = f.create(ctx, name, 1); err != nil {
			return err
		}
		into.alone.engine = append(into.alone.engine, took)
		if _, err := f.delete(ctx, name, 1); err != nil {
			return err
		}
		if _, err := raw.delete(ctx, 1, 1, "raw-"+name); err != nil {
			return err
		}
	}
	return nil
}

func (r *rounds) rows(instances int) []row {
	ratio := func(verb string, of comparison, budget float64) row {
		all := of.ratios()
		return row{Work: fmt.Sprintf("%s %d such instances", verb, instances), Unit: "× plain client", Value: median(all), Budget: budget, Samples: all,
			Detail: fmt.Sprintf("rounds from %.2f to %.2f", minimum(all), most(all))}
	}
	return []row{
		{Work: "create an instance with 5 children in 3 levels", Unit: "requests", Budget: 7,
			Value: float64(r.requests.of(work)) / float64(instances*len(r.created.engine))},
		ratio("create", r.created, 1.5), ratio("delete", r.deleted, 2),
	}
}

// notes compare the times of the controllers and the plain client.
func (r *rounds) notes(instances int) []string {
	cost := func(what string, of []cost) string {
		each := func(which func(cost) time.Duration) float64 { return medianOf(of, which) / float64(instances) }
		return fmt.Sprintf("%s: %.1f ms; CPU time: API server %.1f ms, client %.1f ms", what,
			each(func(e cost) time.Duration { return e.wall }),
			each(func(e cost) time.Duration { return e.server }),
			each(func(e cost) time.Duration { return e.own }))
	}
	return []string{
		cost("create an instance, controllers", r.created.engine),
		cost("create an instance, plain client", r.created.raw),
		cost("delete an instance, controllers", r.deleted.engine),
		cost("delete an instance, plain client", r.deleted.raw),
		fmt.Sprintf("create one instance at a time: controllers %.0f ms, plain client %.0f ms",
			milliseconds(median(r.alone.engine)), milliseconds(median(r.alone.raw))),
	}
}

// ratios compares the wall times round by round.
func (c comparison) ratios() []float64 {
	out := make([]float64, len(c.engine))
	for i := range c.engine {
		out[i] = c.engine[i].wall.Seconds() / c.raw[i].wall.Seconds()
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
