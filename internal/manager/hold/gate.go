// Package hold suspends controllers while there is a Hold: during an import, say, when half
// of the objects exist.
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
)

// Kind is the kind of Holds.
var Kind = espalier.GroupVersion.WithKind(espalier.HoldKind)

// Manager is the field manager of what the gate writes.
const Manager = "espalier.dev/hold"

// Cluster reads and writes Holds; *kube.Client does.
type Cluster interface {
	Get(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error)
	WriteStatus(ctx context.Context, o *unstructured.Unstructured, status map[string]any, manager string) (*unstructured.Unstructured, error)
}

// Watches have Holds, and what is reconciled, in caches; *watch.Hub is one.
type Watches interface {
	Serve(gvk schema.GroupVersionKind, onEvent func(object.Key, watch.Cause)) *watch.Serving
	Served(gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, bool)
	Select(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) []*unstructured.Unstructured
	State(gvk schema.GroupVersionKind, s watch.Selection) watch.State
}

// Gate suspends reconciles while there is a Hold, and enqueues them when it goes.
// Holds are watched, so that a gate costs no request at rest. It is closed until it is
// known that there is no Hold. It is safe for concurrent use.
type Gate struct {
	Cluster Cluster
	Hub     Watches
	// Wake asks for a reconcile of an object.
	Wake func(object.Key)
	Now  func() time.Time
	Log  logr.Logger

	start      sync.Once
	changed    chan struct{} // has room for one signal
	known      chan struct{}
	unreadable unreadable

	mu sync.Mutex
	// closed says that nothing is reconciled: there are holds, or nobody knows.
	closed bool
	holds  []*unstructured.Unstructured
	// suspended are the objects whose reconciles are to come; inFlight is how many
	// reconciles have begun and not ended.
	suspended map[object.Key]struct{}
	inFlight  int
	// gone are Holds that are known to have gone: they never come back.
	gone map[types.UID]bool
}

// Watch begins to watch for Holds. The channel is closed once it is known whether
// there are any.
func (g *Gate) Watch() (known <-chan struct{}) {
	g.start.Do(func() {
		g.closed, g.suspended, g.gone = true, map[object.Key]struct{}{}, map[types.UID]bool{}
		g.changed, g.known = make(chan struct{}, 1), make(chan struct{})
		g.unreadable.log = func(reason, message string) {
			g.Log.Info("cannot read Holds; nothing is reconciled until it is known whether there is one", "reason", reason, "message", message)
		}
		g.Hub.Serve(Kind, func(object.Key, watch.Cause) { g.refresh() })
		g.refresh()
	})
	return g.known
}

// refresh reads the Holds that there are. While they can't be read the gate stays
// as it was: closed at first.
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
	g.unreadable.end()
	g.holds = g.Hub.Select(Kind, "", labels.Everything())
	g.closed = len(g.holds) > 0
	var keys []object.Key
	if !g.closed {
		keys = slices.Collect(maps.Keys(g.suspended))
		clear(g.suspended)
	}
	g.mu.Unlock()
	for _, key := range keys {
		g.Wake(key)
	}
	g.signal()
}

// Unreadable is why Holds can't be read; empty if they can.
func (g *Gate) Unreadable() string { return g.unreadable.reason() }

// signal has Run acknowledge the Holds.
func (g *Gate) signal() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// Run sets restingSince of each Hold once no reconcile is in flight, until the context ends.
func (g *Gate) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.changed:
		}
		for _, h := range g.unacknowledged() {
			g.Log.Info("instances, managed resources and Bindings are not reconciled while there is a Hold", "hold", h.GetName())
			status := map[string]any{"restingSince": g.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")}
			if _, err := g.Cluster.WriteStatus(ctx, h, status, Manager); err != nil && !kube.IsGone(err) && ctx.Err() == nil {
				g.Log.Error(err, "cannot write the status of the Hold, which is obeyed; retrying", "hold", h.GetName())
				time.AfterFunc(retryAfter, g.signal) // no event follows: nothing is reconciled
			}
		}
	}
}

// unacknowledged are the Holds that are obeyed and don't say so.
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
	return gated{g, kind, r}
}

type gated struct {
	gate *Gate
	kind schema.GroupVersionKind
	next queue.Reconciler
}

// retryAfter is when a Hold is read or written again of which no event has come.
const retryAfter = time.Second

// Reconcile reconciles, unless that is suspended: then the end of the Hold enqueues it.
func (r gated) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	if !r.gate.enter(key) {
		return reconcile.Done()
	}
	defer r.gate.leave()
	held, err := r.gate.waitsFor(ctx, r.kind, key)
	switch {
	case err != nil:
		return reconcile.Fail(err)
	case held:
		return reconcile.RequeueAfter(retryAfter)
	}
	return r.next.Reconcile(ctx, key)
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

// waitsFor says whether an object waits for a Hold of which no event has come
// yet. It asks the API server once for each import.
func (g *Gate) waitsFor(ctx context.Context, kind schema.GroupVersionKind, key object.Key) (bool, error) {
	o, exists := g.Hub.Served(kind, key.Namespace, key.Name)
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
