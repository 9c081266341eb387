package follow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/espalier-dev/espalier/internal/observe"
)

// follower watches the objects of a tree: the kinds and namespaces in the inventories of its
// instances, and no others.
type follower struct {
	cluster *Cluster
	target  Target
	changed chan struct{} // has room for one signal
	root    *watching
	watched map[lookup]watchedLookup
	read    definitions
	running sync.WaitGroup
}

type watchedLookup struct {
	*watching
	stop context.CancelFunc
}

// watching is an informer, and why it cannot read: then it has synced with what it has.
type watching struct {
	cache.SharedInformer
	refused atomic.Pointer[error]
}

// HasSynced reports whether all has been read that can be.
func (w *watching) HasSynced() bool { return w.SharedInformer.HasSynced() || w.refused.Load() != nil }

// kindRetryInterval is how often unknown kinds are looked up again.
const kindRetryInterval = time.Second

// Follow sends the state of a tree once all of it has been read, and then after each change;
// changes while the receiver is busy are sent as one. It returns the context's cause when the
// context ends, and nil after it has sent a state without the target.
func (c *Cluster) Follow(ctx context.Context, t Target, states chan<- observe.ClusterState) error {
	ctx, stop := context.WithCancel(ctx)
	f := &follower{cluster: c, target: t, changed: make(chan struct{}, 1), watched: map[lookup]watchedLookup{}, read: definitions{}}
	defer f.running.Wait()
	defer stop()
	f.root = f.watch(ctx, lookup{resource: t.Mapping.Resource, namespace: t.Namespace}, func(o *metav1.ListOptions) {
		if t.Name != "" {
			o.FieldSelector = "metadata.name=" + t.Name
		}
	})
	retry := time.NewTicker(kindRetryInterval)
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
		if refused := f.root.refused.Load(); refused != nil {
			return fmt.Errorf("watch %s: %w", t, *refused)
		}
		state, complete, err := f.readState(ctx)
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
		case states <- state:
		}
		if state.Gone() {
			return nil
		}
	}
}

// readState collects the objects of all watches, and starts and stops watches accordingly: the
// children of a new instance are watched, those of an instance that is gone are not. Complete
// is false while kinds are unknown.
func (f *follower) readState(ctx context.Context) (state observe.ClusterState, complete bool, err error) {
	complete = true
	var roots []*unstructured.Unstructured
	for _, o := range f.root.GetStore().List() {
		if root, ok := o.(*unstructured.Unstructured); ok && f.target.matches(root) {
			roots = append(roots, root)
		}
	}
	state = f.target.newState(roots)
	wanted, unreadable := map[lookup]bool{}, map[string]bool{}
	for open := slices.Clone(roots); len(open) > 0; open = open[1:] {
		f.read.read(ctx, f.cluster, open[0])
		places, all, err := f.cluster.Kinds.lookupsBelow(open[0], f.target)
		if err != nil {
			return observe.ClusterState{}, false, err
		}
		complete = complete && all
		for _, at := range places {
			if wanted[at] {
				continue
			}
			wanted[at] = true
			children, refused := f.listAndWatch(ctx, at)
			if refused {
				unreadable[at.String()] = true
			}
			for _, child := range children {
				at.addTo(&state, child)
				open = append(open, child)
			}
		}
	}
	for at, p := range f.watched {
		if !wanted[at] {
			p.stop()
			delete(f.watched, at)
		}
	}
	state.Definitions = maps.Clone(f.read) // the receiver keeps the state
	state.Unreadable = slices.Sorted(maps.Keys(unreadable))
	return state, complete, nil
}

// synced reports whether all watches have synced.
func (f *follower) synced() bool {
	for _, p := range f.watched {
		if !p.HasSynced() {
			return false
		}
	}
	return true
}

// listAndWatch returns the objects of a lookup, and starts to watch it. Refused is true if they may not be read.
func (f *follower) listAndWatch(ctx context.Context, l lookup) (out []*unstructured.Unstructured, refused bool) {
	p, ok := f.watched[l]
	if !ok {
		until, stop := context.WithCancel(ctx)
		p = watchedLookup{stop: stop, watching: f.watch(until, l, func(o *metav1.ListOptions) { o.LabelSelector = l.selector() })}
		f.watched[l] = p
	}
	for _, o := range p.GetStore().List() {
		if child, ok := o.(*unstructured.Unstructured); ok {
			out = append(out, child)
		}
	}
	return out, p.refused.Load() != nil
}

// watch starts an informer that signals the follower after each event, and once when it has
// synced.
func (f *follower) watch(ctx context.Context, l lookup, tweak func(*metav1.ListOptions)) *watching {
	informer := dynamicinformer.NewFilteredDynamicInformer(f.cluster.Client, l.resource, l.namespace, 0, cache.Indexers{}, tweak).Informer()
	out := &watching{SharedInformer: informer}
	wake := func() {
		select {
		case f.changed <- struct{}{}:
		default: // a signal is pending
		}
	}
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) { // it has not started
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			out.refused.Store(&err)
			wake()
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	})
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
			out.refused.Store(nil) // the permission was granted
			wake()
		}
	})
	return out
}
