// Package hold suspends controllers while there is a Hold: for example during an import, when
// half of the objects exist.
package hold

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/queue"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/shard"
)

// Kind is the kind of Holds.
var Kind = espalier.GroupVersion.WithKind(espalier.HoldKind)

// FieldManager is the field manager of what the gate writes.
const FieldManager = "espalier.dev/hold"

// Cluster reads and writes Holds; *kube.Client does.
type Cluster interface {
	Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	WriteStatus(ctx context.Context, o *unstructured.Unstructured, status map[string]any, manager string) (*unstructured.Unstructured, error)
}

// Watches are the caches of Holds and of reconciled objects; *watch.Hub implements it.
type Watches interface {
	WatchKind(gvk schema.GroupVersionKind, onEvent func(object.Key, watch.Cause)) *watch.KindWatch
	GetCached(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool)
	Select(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) []*unstructured.Unstructured
	State(gvk schema.GroupVersionKind, s watch.Selection) watch.State
	Forget(watch.Subscriber)
}

// Replicas are the processes that share the work, as cluster.Replicas says.
type Replicas interface {
	Holds(shard.Slot) bool
	Rest(ctx context.Context, holds []string) (all bool, err error)
	OnRest(changed func())
}

// Gate suspends reconciles while there is a Hold, and enqueues them when it is deleted. It
// watches Holds and makes no other requests while nothing changes. It suspends reconciles
// until it is known that there is no Hold. It is safe for concurrent use.
type Gate struct {
	Cluster Cluster
	Hub     Watches
	// Enqueue asks for a reconcile of an object.
	Enqueue func(object.Key)
	Now     func() time.Time
	Log     logr.Logger
	// Replicas are other processes that must rest too, before a Hold is acknowledged; nil if there are none.
	Replicas Replicas

	start      sync.Once
	changed    chan struct{} // has room for one signal
	known      chan struct{}
	unreadable unreadableState

	mu sync.Mutex
	// closed is true while nothing is reconciled: there are holds, or it is not known
	// whether there are.
	closed bool
	holds  []*unstructured.Unstructured
	// suspended are the objects to enqueue when the gate opens; inFlight is the number of
	// reconciles that have begun and not ended.
	suspended map[object.Key]struct{}
	inFlight  int
	// gone are the UIDs of Holds that are known to be deleted.
	gone map[types.UID]bool
}

// Watch starts to watch Holds. The channel is closed once it is known whether there are any.
func (g *Gate) Watch() (known <-chan struct{}) {
	g.start.Do(func() {
		g.closed, g.suspended, g.gone = true, map[object.Key]struct{}{}, map[types.UID]bool{}
		g.changed, g.known = make(chan struct{}, 1), make(chan struct{})
		g.unreadable.log = func(reason, message string) {
			g.Log.Info("cannot read Holds; nothing is reconciled until they can be read", "reason", reason, "message", message)
		}
		g.Hub.WatchKind(Kind, func(object.Key, watch.Cause) { g.refresh() })
		g.refresh()
	})
	return g.known
}

// refresh reads the Holds from the cache. While they are unavailable the gate stays as it is:
// closed at first.
func (g *Gate) refresh() {
	g.mu.Lock()
	if state := g.Hub.State(Kind, watch.All()); state.Phase != watch.Synced {
		if state.Phase == watch.Unavailable {
			g.unreadable.set(string(state.Reason), state.Message)
		}
		g.mu.Unlock()
		return
	}
	select {
	case <-g.known:
	default:
		close(g.known)
	}
	g.unreadable.clear()
	g.holds = g.Hub.Select(Kind, "", labels.Everything())
	g.closed = len(g.holds) > 0
	var keys []object.Key
	if !g.closed {
		keys = slices.Collect(maps.Keys(g.suspended))
		clear(g.suspended)
	}
	g.mu.Unlock()
	for _, key := range keys {
		g.Enqueue(key)
	}
	g.signal()
}

// Unreadable returns why Holds cannot be read; empty if they can.
func (g *Gate) Unreadable() string { return g.unreadable.reason() }

// Recheck makes Run look again which Holds this process is to acknowledge.
func (g *Gate) Recheck() {
	if g.changed != nil {
		g.signal()
	}
}

// signal makes Run acknowledge the Holds.
func (g *Gate) signal() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// Run sets restingSince of each Hold once no reconcile is in flight, until the context ends.
func (g *Gate) Run(ctx context.Context) {
	if g.Replicas != nil {
		g.Replicas.OnRest(g.signal)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.changed:
		}
		for _, h := range g.acknowledgeable(ctx) {
			g.Log.Info("instances, managed resources and Bindings are not reconciled while there is a Hold", "hold", h.GetName())
			status := map[string]any{"restingSince": g.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")}
			if _, err := g.Cluster.WriteStatus(ctx, h, status, FieldManager); err != nil && !kube.IsStale(err) && ctx.Err() == nil {
				g.Log.Error(err, "cannot write the status of the Hold; reconciles are suspended; retrying", "hold", h.GetName())
				time.AfterFunc(retryAfter, g.signal) // no event follows: nothing is reconciled
			}
		}
	}
}

// acknowledgeable returns the Holds that this process is to acknowledge: all replicas rest for them.
func (g *Gate) acknowledgeable(ctx context.Context) []*unstructured.Unstructured {
	if g.Replicas == nil {
		return g.unacknowledged()
	}
	all, err := g.Replicas.Rest(ctx, g.resting())
	if err != nil && ctx.Err() == nil {
		g.Log.Error(err, "cannot publish for which Holds this replica rests, so that they are not acknowledged yet; retrying")
		time.AfterFunc(retryAfter, g.signal)
	}
	if err != nil || !all {
		return nil // a change of the others calls OnRest's function
	}
	return slices.DeleteFunc(g.unacknowledged(), func(h *unstructured.Unstructured) bool {
		return !g.Replicas.Holds(shard.SlotOf("", h.GetName())) // another replica acknowledges it
	})
}

// resting returns the UIDs of the Holds, once no reconcile is in flight.
func (g *Gate) resting() (uids []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inFlight > 0 {
		return nil
	}
	for _, h := range g.holds {
		uids = append(uids, string(h.GetUID()))
	}
	return uids
}

// unacknowledged returns the Holds without restingSince, once no reconcile is in flight.
func (g *Gate) unacknowledged() []*unstructured.Unstructured {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inFlight > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(g.holds), func(h *unstructured.Unstructured) bool {
		since, _, _ := unstructured.NestedString(h.Object, "status", "restingSince")
		return since != ""
	})
}

// Wrap returns a reconciler of a kind that is suspended while the gate is closed.
func (g *Gate) Wrap(kind schema.GroupVersionKind, r queue.Reconciler) queue.Reconciler {
	return gatedReconciler{g, kind, r}
}

type gatedReconciler struct {
	gate *Gate
	kind schema.GroupVersionKind
	next queue.Reconciler
}

// retryAfter is when a Hold is read or written again if no event for it arrives.
const retryAfter = time.Second

// Reconcile reconciles unless the gate is closed: then the object is enqueued when it opens.
func (r gatedReconciler) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	if !r.gate.enter(key) {
		return reconcile.Done()
	}
	defer r.gate.leave()
	held, err := r.gate.isHeldByImport(ctx, r.kind, key)
	switch {
	case err != nil:
		return reconcile.Fail(err)
	case held:
		return reconcile.RequeueAfter(retryAfter)
	}
	return r.next.Reconcile(ctx, key)
}

// Follows is queue.Follower's.
func (r gatedReconciler) Follows() bool {
	f, ok := r.next.(queue.Follower)
	return ok && f.Follows()
}

// Disown is queue.Disowner's.
func (r gatedReconciler) Disown(key object.Key) {
	if d, ok := r.next.(queue.Disowner); ok {
		d.Disown(key)
		return
	}
	r.gate.Hub.Forget(watch.Subscriber{Key: key})
}

func (g *Gate) enter(key object.Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		g.suspended[key] = struct{}{}
		return false
	}
	g.inFlight++
	return true
}

func (g *Gate) leave() {
	g.mu.Lock()
	g.inFlight--
	last := g.inFlight == 0 && g.closed
	g.mu.Unlock()
	if last {
		g.signal()
	}
}

// isHeldByImport reports whether an object belongs to an import whose Hold has not been
// observed yet. It reads the Hold from the API server, once for each import that is over.
func (g *Gate) isHeldByImport(ctx context.Context, kind schema.GroupVersionKind, key object.Key) (bool, error) {
	o, exists := g.Hub.GetCached(kind, key.Namespace, key.Name)
	if !exists {
		return false, nil
	}
	name, uid, imported := strings.Cut(o.GetAnnotations()[espalier.ImportAnnotation], "/")
	if !imported || name == "" {
		return false, nil
	}
	g.mu.Lock()
	gone := g.gone[types.UID(uid)]
	g.mu.Unlock()
	if gone {
		return false, nil
	}
	live, err := g.Cluster.Get(ctx, Kind, "", name)
	if err != nil && !kube.IsObjectNotFound(err, name) {
		return false, err
	}
	if err == nil && string(live.GetUID()) == uid {
		return true, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.gone[types.UID(uid)] = true
	return false, nil
}
