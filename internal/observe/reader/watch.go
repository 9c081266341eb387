package reader

import (
	"context"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Watches watch queries, and give one signal for all of their changes.
type Watches struct {
	// Count, if it is set before the first watch, is called with each change of the number of objects in memory. Calls
	// may be concurrent.
	Count   func(difference int64)
	cluster *Cluster
	running sync.WaitGroup
	changed chan struct{} // has room for one signal
}

// Watching calls use with watches. They end with the context and when use returns, and have ended when Watching
// returns.
func (c *Cluster) Watching(ctx context.Context, use func(context.Context, *Watches) error) error {
	ctx, stop := context.WithCancel(ctx)
	w := &Watches{cluster: c, changed: make(chan struct{}, 1)}
	defer w.running.Wait()
	defer stop()
	return use(ctx, w)
}

// Wake makes Run call its function once more.
func (w *Watches) Wake() {
	select {
	case w.changed <- struct{}{}:
	default: // a signal is pending
	}
}

// Run calls handle after changes, once for all that come while it runs, until it reports that it is done or fails. It
// returns the context's cause when the context ends.
func (w *Watches) Run(ctx context.Context, handle func() (done bool, err error)) error {
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.changed:
		}
		if done, err := handle(); done || err != nil {
			return err
		}
	}
}

// Send sends a state. It returns the context's cause if the context ends before the state is received.
func Send[T any](ctx context.Context, states chan<- T, state T) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case states <- state:
		return nil
	}
}

// Objects are the watched objects of a query. It may be used concurrently.
type Objects struct {
	informer  cache.SharedIndexInformer
	delivered cache.ResourceEventHandlerRegistration
	problem   atomic.Pointer[error]
	dirty     atomic.Bool
	count     atomic.Int64
}

// HasSynced reports whether all objects have been read, and counted.
func (o *Objects) HasSynced() bool { return o.delivered.HasSynced() }

// Problem is why the objects cannot be read, as far as is known now; nil if they can.
func (o *Objects) Problem() error {
	if problem := o.problem.Load(); problem != nil {
		return *problem
	}
	return nil
}

// HasEnded reports whether the first read has ended: all objects have been read, or cannot be.
func (o *Objects) HasEnded() bool { return o.HasSynced() || o.Problem() != nil }

// TakeChanged reports whether there were changes since the last call.
func (o *Objects) TakeChanged() bool { return o.dirty.Swap(false) }

// All returns the objects in no order. The caller must not change them.
func (o *Objects) All() []*unstructured.Unstructured {
	list := o.informer.GetStore().List()
	out := make([]*unstructured.Unstructured, 0, len(list))
	for _, x := range list {
		if u, ok := x.(*unstructured.Unstructured); ok {
			out = append(out, u)
		}
	}
	return out
}

// Watch watches the objects of a query until the context ends; its Max and MetadataOf have no effect. Transform, if not
// nil, changes each object before it is stored. An error that a later try may correct is passed to report, if that is
// not nil.
func (w *Watches) Watch(ctx context.Context, q Query, transform cache.TransformFunc, report cache.WatchErrorHandlerWithContext) *Objects {
	out := &Objects{}
	change := func(difference int64) {
		out.count.Add(difference)
		if w.Count != nil && difference != 0 {
			w.Count(difference)
		}
		out.dirty.Store(true)
		w.Wake()
	}
	informer := cache.NewSharedIndexInformerWithOptions(w.listWatch(q, func() {
		if out.problem.Swap(nil) != nil {
			change(0)
		}
	}), &unstructured.Unstructured{}, cache.SharedIndexInformerOptions{ObjectDescription: q.Resource.String()})
	out.informer = informer
	if transform != nil {
		_ = informer.SetTransform(transform) // it has not started
	}
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) { // it has not started
		if report != nil && !IsRefusal(err) {
			report(ctx, r, err)
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return // the watch begins again
		}
		out.problem.Store(&err)
		change(0)
	})
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { change(1) },
		UpdateFunc: func(any, any) { change(0) },
		DeleteFunc: func(any) { change(-1) },
	})
	if err != nil {
		panic("an informer that has not started takes handlers: " + err.Error())
	}
	out.delivered = registration
	w.running.Go(func() {
		informer.RunWithContext(ctx)
		change(-out.count.Load())
	})
	w.running.Go(func() {
		if cache.WaitFor(ctx, "", registration.HasSyncedChecker()) {
			out.problem.Store(nil)
			change(0)
		}
	})
	return out
}

// listWatch lists and watches a query. Begun is called when a watch begins.
func (w *Watches) listWatch(q Query, begun func()) cache.ListerWatcher {
	client := w.cluster.Client.Resource(q.Resource).Namespace(q.Namespace)
	narrow := func(o *metav1.ListOptions) { o.LabelSelector, o.FieldSelector = q.Labels, q.Fields }
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			narrow(&o)
			return client.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			narrow(&o)
			watched, err := client.Watch(ctx, o)
			if err == nil {
				begun()
			}
			return watched, err
		},
	}, w.cluster.Client)
}

// IsRefusal reports whether the API server refuses a request of this user.
func IsRefusal(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
