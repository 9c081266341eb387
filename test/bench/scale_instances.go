package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

const (
	// singleChanges is how many changes are measured, each of one instance among all.
	singleChanges = 200
	// enough is how many instances are created at each size, in rounds, and maxRounds how many
	// rounds at most: a few instances are not precise.
	enough    = 1000
	maxRounds = 5
	// perInstance bounds what an instance costs among many, as a multiple of what it costs among few, and perDeletion what
	// its deletion costs.
	perInstance, perDeletion = 1.2, 1.4
)

var scaleScenarios = []scenario{
	{"definitions", measureDefinitions},
	{"nest", measureDeepNest},
	{"children", measureChildren},
	{"instances", measureSizes},
}

// progress prints what was measured.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// repeats is how often a size is measured.
func repeats(size int) int { return min(maxRounds, max(1, enough/size)) }

// measureSizes measures instances of five children, as many as each of the sizes.
func measureSizes(ctx context.Context, b *bench) error {
	f, err := b.flats(ctx, "Flat", ours("flats"))
	if err != nil {
		return err
	}
	defer f.seen.stop()
	const few = 100
	if _, err := f.create(ctx, "warm", few); err != nil {
		return err
	}
	if _, err := f.delete(ctx, "warm", few); err != nil {
		return err
	}
	for _, n := range b.sizes {
		b.instances = n
		if err := f.measureSize(ctx, n); err != nil {
			return fmt.Errorf("%d instances: %w", n, err)
		}
	}
	return nil
}

// measureSize creates n instances, changes single ones of them, restarts the controllers, and deletes
// all instances. Creation and deletion are repeated if there are few.
func (f flatInstances) measureSize(ctx context.Context, n int) error {
	idle, err := f.restarts(ctx, "restart without instances", 0)
	if err != nil {
		return err
	}
	var all rounds
	var among []measure
	for round := range repeats(n) {
		if err := f.createByEngine(ctx, round, &all); err != nil {
			return err
		}
		progress("%d instances: created in %.1f s", n, all.created.engine[round].wall.Seconds())
		if round == repeats(n)-1 {
			if among, err = f.measureAmong(ctx, roundPrefix(round), n, idle); err != nil {
				return err
			}
		}
		if err := f.deleteByEngine(ctx, round, &all); err != nil {
			return err
		}
		progress("%d instances: deleted in %.1f s", n, all.deleted.engine[round].wall.Seconds())
	}
	f.plot("instances", all.growing(n)...)
	f.plot("instances", among...)
	return nil
}

// growing are the measures of creation and deletion, for each of n instances, and of both together: what the first one leaves
// behind, such as garbage of the API server, costs time in the second if there is enough of it.
func (r *rounds) growing(n int) []measure {
	out := costs("creation", n, r.created.engine, perInstance)
	requests := measure{Name: "creation: requests", Unit: "per instance", Budget: perInstance}
	out = append(out, requests.at(n, float64(r.requests.of(work))/float64(n*len(r.created.engine))))
	lives := make([]cost, len(r.deleted.engine))
	for i, deleted := range r.deleted.engine {
		lives[i] = r.created.engine[i].plus(deleted)
	}
	return slices.Concat(out, costs("deletion", n, r.deleted.engine, perDeletion), costs("creation and deletion", n, lives, perInstance))
}

// costs are the measures of work on n instances, which one chart shows.
func costs(of string, n int, rounds []cost, budget float64) []measure {
	each := func(name string, which func(cost) time.Duration) measure {
		return measure{Name: name, Unit: "ms per instance", Chart: of, Budget: budget}.at(n, medianOf(rounds, which)/float64(n))
	}
	return []measure{
		each(of, func(c cost) time.Duration { return c.wall }),
		each(of+": CPU time of the controllers", func(c cost) time.Duration { return c.own }),
		each(of+": CPU time of the API server", func(c cost) time.Duration { return c.server }),
	}
}

// measureAmong measures n instances that exist: changes of single ones, their memory, and a restart.
func (f flatInstances) measureAmong(ctx context.Context, prefix string, n int, idle restarted) ([]measure, error) {
	if _, err := f.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	changed, err := f.changeSingly(ctx, prefix, n)
	if err != nil {
		return nil, err
	}
	controllers, err := resident(os.Getpid())
	if err != nil {
		return nil, err
	}
	server, err := resident(f.plane.PID())
	if err != nil {
		return nil, err
	}
	busy, err := f.restarts(ctx, fmt.Sprintf("restart with %d instances", n), n)
	if err != nil {
		return nil, err
	}
	progress("%d instances: all known after %.1f s", n, busy.took.Seconds())
	f.add(row{Work: fmt.Sprintf("restart with %d instances", n), Unit: "writes", Value: float64(busy.requests.of(writes)),
		Detail: fmt.Sprintf("%d reads besides watches", busy.requests.of(work)-busy.requests.of(writes))})
	return []measure{
		measure{Name: "one change among all, p50", Unit: "ms", Chart: "change"}.at(n, milliseconds(median(changed))),
		measure{Name: "one change among all, p99", Unit: "ms", Chart: "change"}.at(n, milliseconds(quantile(changed, 0.99))),
		measure{Name: "restart: until all are known", Unit: "s", Chart: "restart"}.at(n, busy.took.Seconds()),
		measure{Name: "resident memory of the controllers", Unit: "MiB", Chart: "memory"}.at(n, controllers),
		measure{Name: "resident memory of the API server", Unit: "MiB", Chart: "memory"}.at(n, server),
		measure{Name: "heap for each child", Unit: "bytes", Budget: perInstance}.at(n, float64(busy.heap-idle.heap)/float64(busy.children)),
	}, nil
}

// restarts restarts the controllers, repeatedly if there are few instances, and returns the medians of
// the times and of the heaps, with the requests of the last restart.
func (f flatInstances) restarts(ctx context.Context, what string, n int) (restarted, error) {
	var took []time.Duration
	var heaps []int64
	var last restarted
	for range repeats(max(n, 1)) {
		r, err := f.restart(ctx, what, n, f.untilReconciled(f.kind, n))
		if err != nil {
			return r, err
		}
		took, heaps, last = append(took, r.took), append(heaps, r.heap), r
	}
	last.took, last.heap = median(took), median(heaps)
	return last, nil
}

// changeSingly changes single instances, one after the other, and returns how long each took from the
// sending of the change until the instance was ready.
func (f flatInstances) changeSingly(ctx context.Context, prefix string, n int) ([]time.Duration, error) {
	var all []time.Duration
	apart := max(1, n/singleChanges)
	for k := range singleChanges {
		took, err := f.update(ctx, numberedName(prefix, k*apart%n), 1, 2+k*apart/n)
		if err != nil {
			return nil, err
		}
		all = append(all, took)
	}
	return all, nil
}
