package follow

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/espalier-dev/espalier/internal/observe"
)

// follower keeps watches on the objects of a tree, exactly where its instances
// say that they have children.
type follower struct {
	cluster *Cluster
	target  Target
	changed chan struct{} // holds one wake-up
	root    cache.SharedInformer
	places  map[lookup]place
	read    definitions
	running sync.WaitGroup
}

type place struct {
	informer cache.SharedInformer
	stop     context.CancelFunc
}

// missingKinds is how often kinds that no server knew are looked up again.
const missingKinds = time.Second

// Follow sends the tree's world once all of it has been read, and then whenever
// it has changed; what happens while the receiver is busy comes at once. It ends
// when the context does, or, without an error and after a world that is gone,
// when the target is.
func (c *Cluster) Follow(ctx context.Context, t Target, worlds chan<- observe.World) error {
	ctx, stop := context.WithCancel(ctx)
	f := &follower{cluster: c, target: t, changed: make(chan struct{}, 1), places: map[lookup]place{}, read: definitions{}}
	defer f.running.Wait()
	defer stop()
	f.root = f.watch(ctx, lookup{resource: t.Mapping.Resource, namespace: t.Namespace}, func(o *metav1.ListOptions) {
		if t.Name != "" {
			o.FieldSelector = "metadata.name=" + t.Name
		}
	})
	retry := time.NewTicker(missingKinds)
	defer retry.Stop()
	incomplete, begun := false, false
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-retry.C:
			if !incomplete {
				continue
			}
		case <-f.changed:
		}
		if !f.root.HasSynced() {
			continue
		}
		world, complete, err := f.look(ctx)
		if err != nil {
			return err
		}
		incomplete = !complete
		if begun = begun || f.synced(); !begun {
			continue
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case worlds <- world:
		}
		if world.Gone() {
			return nil
		}
	}
}

// look collects what the watches know, and adjusts them to it: an instance that
// has come is followed further, one that is gone no longer.
func (f *follower) look(ctx context.Context) (world observe.World, complete bool, err error) {
	complete = true
	var roots []*unstructured.Unstructured
	for _, o := range f.root.GetStore().List() {
		if root, ok := o.(*unstructured.Unstructured); ok && f.target.is(root) {
			roots = append(roots, root)
		}
	}
	world = f.target.rooted(roots)
	wanted := map[lookup]bool{}
	for open := slices.Clone(roots); len(open) > 0; open = open[1:] {
		f.read.read(ctx, f.cluster, open[0])
		places, all, err := f.cluster.Kinds.below(open[0], f.target)
		if err != nil {
			return observe.World{}, false, err
		}
		complete = complete && all
		for _, at := range places {
			if wanted[at] {
				continue
			}
			wanted[at] = true
			for _, child := range f.at(ctx, at) {
				at.add(&world, child)
				open = append(open, child)
			}
		}
	}
	for at, p := range f.places {
		if !wanted[at] {
			p.stop()
			delete(f.places, at)
		}
	}
	world.Definitions = maps.Clone(f.read) // whoever has the world keeps it
	return world, complete, nil
}

// synced says whether everything that is watched has been read.
func (f *follower) synced() bool {
	for _, p := range f.places {
		if !p.informer.HasSynced() {
			return false
		}
	}
	return true
}

// at returns the objects at a place, which is watched from now on.
func (f *follower) at(ctx context.Context, l lookup) []*unstructured.Unstructured {
	p, ok := f.places[l]
	if !ok {
		watching, stop := context.WithCancel(ctx)
		p = place{stop: stop, informer: f.watch(watching, l, func(o *metav1.ListOptions) { o.LabelSelector = l.selector() })}
		f.places[l] = p
	}
	var out []*unstructured.Unstructured
	for _, o := range p.informer.GetStore().List() {
		if child, ok := o.(*unstructured.Unstructured); ok {
			out = append(out, child)
		}
	}
	return out
}

// watch starts a watch that wakes the follower at each event, and once when it
// has read what there is.
func (f *follower) watch(ctx context.Context, l lookup, tweak func(*metav1.ListOptions)) cache.SharedInformer {
	informer := dynamicinformer.NewFilteredDynamicInformer(f.cluster.Client, l.resource, l.namespace, 0, cache.Indexers{}, tweak).Informer()
	wake := func() {
		select {
		case f.changed <- struct{}{}:
		default: // it is awake
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { wake() },
		UpdateFunc: func(any, any) { wake() },
		DeleteFunc: func(any) { wake() },
	})
	if err != nil {
		panic("an informer that has not started takes handlers: " + err.Error())
	}
	f.running.Go(func() { informer.RunWithContext(ctx) })
	f.running.Go(func() {
		if cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			wake()
		}
	})
	return informer
}
