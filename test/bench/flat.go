package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// flatInstances are instances with five ConfigMaps as children, and a watch of the instances. Their user has a
// connection of its own.
type flatInstances struct {
	*bench
	kind string
	gvr  schema.GroupVersionResource
	of   dynamic.ResourceInterface
	seen *watchStream
}

func (b *bench) flats(ctx context.Context, kind string, gvr schema.GroupVersionResource) (flatInstances, error) {
	client, err := b.anotherClient()
	if err != nil {
		return flatInstances{}, err
	}
	of := client.Resource(gvr).Namespace(namespace)
	w, err := b.watchBy(ctx, of, gvr.Resource)
	return flatInstances{b, kind, gvr, of, w}, err
}

// measureFlat measures instances of five ConfigMaps: their creation, idle time, changes and
// deletion.
func measureFlat(ctx context.Context, b *bench) error {
	f, err := b.flats(ctx, "Flat", ours("flats"))
	if err != nil {
		return err
	}
	defer f.seen.stop()
	raw, err := f.warmUp(ctx)
	if err != nil {
		return err
	}
	var all rounds
	for round := range b.rounds {
		if err := f.round(ctx, raw, round, &all); err != nil {
			return err
		}
	}
	if err := f.measureSequential(ctx, raw, &all); err != nil {
		return err
	}
	b.add(all.rows(b.instances)...)
	b.notes = append(b.notes, all.notes(b.instances)...)
	if _, err := f.create(ctx, "changed", b.instances); err != nil {
		return err
	}
	return f.measureChanges(ctx, "changed")
}

// measureLife measures the creation, which a row of the table describes, and what follows.
func (f flatInstances) measureLife(ctx context.Context, creation string, budget float64) error {
	const few = 30
	if _, err := f.create(ctx, "warm", few); err != nil {
		return err
	}
	if _, err := f.delete(ctx, "warm", few); err != nil {
		return err
	}
	var made rounds
	if err := f.createByEngine(ctx, 0, &made); err != nil {
		return err
	}
	f.add(row{
		Work: creation, Unit: "requests", Budget: budget,
		Value:  float64(made.requests.of(work)) / float64(f.instances),
		Detail: fmt.Sprintf("%.1f ms each when %d are created", milliseconds(made.created.engine[0].wall)/float64(f.instances), f.instances),
	})
	return f.measureChanges(ctx, roundPrefix(0))
}

// measureChanges measures what follows the creation.
func (f flatInstances) measureChanges(ctx context.Context, prefix string) error {
	if err := f.measureIdle(ctx, f.instances); err != nil {
		return err
	}
	if err := f.measureUpdates(ctx, prefix); err != nil {
		return err
	}
	return f.measureDeletion(ctx, prefix)
}

func roundPrefix(round int) string { return fmt.Sprintf("flat-%d", round) }

// warmUp creates and deletes a few instances, by the controllers and by the plain client, so that
// watches are synced and connections are open.
func (f flatInstances) warmUp(ctx context.Context) (*rawWriter, error) {
	const few = 30
	if _, err := f.create(ctx, "warm", few); err != nil {
		return nil, err
	}
	raw, err := f.newRaw(ctx, numberedName("warm", 0))
	if err != nil {
		return nil, err
	}
	if _, err := raw.create(ctx, f.workers, few, "cold"); err != nil {
		return nil, err
	}
	if _, err := raw.delete(ctx, f.workers, few, "cold"); err != nil {
		return nil, err
	}
	_, err = f.delete(ctx, "warm", few)
	return raw, err
}

// create creates n instances as users would, and returns how long it took from
// the first create until the last instance was ready.
func (f flatInstances) create(ctx context.Context, prefix string, n int) (time.Duration, error) {
	return f.forEach(ctx, n, withPrefix(prefix, isReady(1)), func(ctx context.Context, i int) error {
		o, err := f.instance(numberedName(prefix, i), 1)
		if err != nil {
			return err
		}
		_, err = f.of.Create(ctx, o, metav1.CreateOptions{FieldManager: manager})
		return err
	})
}

// instance is an instance as a user writes it; each wording is another value of the field that all children use.
func (f flatInstances) instance(name string, wording int) (*unstructured.Unstructured, error) {
	if f.kind == graphKind {
		return newGraph(name, wording)
	}
	o := instance(f.kind, name)
	o.Object["spec"] = map[string]any{"text": text(name, wording)}
	return o, nil
}

// measureIdle counts the requests while nothing changes, with n instances.
func (f flatInstances) measureIdle(ctx context.Context, n int) error {
	r, err := f.countRequests(ctx, "no changes", n, nil, func() error {
		select {
		case <-time.After(f.idle):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	f.add(row{Work: fmt.Sprintf("no changes for %s, with %d %s", f.idle, n, f.words()), Unit: "requests", Value: float64(r.of(work))})
	return err
}

// addedGenerations is by how much the first reconcile raises an instance's generation: the
// references to the children are in the spec of a composite.
func (f flatInstances) addedGenerations() int64 {
	if f.kind == "Composed" {
		return 1
	}
	return 0
}

func (f flatInstances) words() string {
	switch f.kind {
	case "Composed":
		return "composites"
	case graphKind:
		return "Graphs"
	}
	return "instances"
}

func (f flatInstances) suffix() string {
	switch f.kind {
	case "Composed":
		return " (composite)"
	case graphKind:
		return " (Graph)"
	}
	return ""
}

// measureUpdates changes, in all instances, the field that all children use.
func (f flatInstances) measureUpdates(ctx context.Context, prefix string) error {
	var took time.Duration
	own := requests{{"PATCH", f.gvr.Resource}: f.instances}
	r, err := f.countRequests(ctx, "change a field that 5 children use", f.instances, own, func() (err error) {
		took, err = f.update(ctx, prefix, f.instances, 2)
		return err
	})
	if err != nil {
		return err
	}
	var single []time.Duration
	for i := range 30 {
		one, err := f.update(ctx, numberedName(prefix, i), 1, 3)
		if err != nil {
			return err
		}
		single = append(single, one)
	}
	f.add(row{Work: "change a spec field that 5 children use" + f.suffix(), Unit: "requests", Value: float64(r.of(work)) / float64(f.instances), Budget: 6,
		Detail: fmt.Sprintf("%.0f ms for one alone; %.1f ms each when all %d change", milliseconds(median(single)), milliseconds(took)/float64(f.instances),
			f.instances)})
	return nil
}

// update changes the field in n instances, and returns how long it took until all were ready
// again. If n is 1, the prefix is the name.
func (f flatInstances) update(ctx context.Context, prefix string, n, wording int) (time.Duration, error) {
	return f.forEach(ctx, n, withPrefix(prefix, isReady(int64(wording)+f.addedGenerations())), func(ctx context.Context, i int) error {
		name := prefix
		if n > 1 {
			name = numberedName(prefix, i)
		}
		o, err := f.instance(name, wording)
		if err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{"spec": o.Object["spec"]})
		if err != nil {
			return err
		}
		_, err = f.of.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
		return err
	})
}

// measureDeletion deletes all instances.
func (f flatInstances) measureDeletion(ctx context.Context, prefix string) error {
	var took time.Duration
	own := requests{{"DELETE", f.gvr.Resource}: f.instances}
	r, err := f.countRequests(ctx, "delete instances", f.instances, own, func() (err error) {
		took, err = f.delete(ctx, prefix, f.instances)
		return err
	})
	f.add(row{Work: "delete such an instance" + f.suffix(), Unit: "requests", Value: float64(r.of(work)) / float64(f.instances), Budget: 8,
		Detail: fmt.Sprintf("%.1f ms each when all %d are deleted", milliseconds(took)/float64(f.instances), f.instances)})
	return err
}

// delete deletes n instances and returns how long it took until they were
// gone.
func (f flatInstances) delete(ctx context.Context, prefix string, n int) (time.Duration, error) {
	return f.forEach(ctx, n, withPrefix(prefix, isGone), func(ctx context.Context, i int) error {
		return f.of.Delete(ctx, numberedName(prefix, i), metav1.DeleteOptions{})
	})
}

// forEach calls do for n instances concurrently, and returns how long it took until n instances
// passed the check.
func (f flatInstances) forEach(ctx context.Context, n int, check check, do func(ctx context.Context, i int) error) (time.Duration, error) {
	var last time.Time
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		last, err = f.seen.awaitAll(ctx, n, check)
		return err
	})
	g.Go(func() error { return concurrently(ctx, f.workers, n, do) })
	err := g.Wait()
	return last.Sub(began), err
}
