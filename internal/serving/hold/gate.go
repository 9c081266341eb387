// Package hold suspends controllers while there is a Hold: for example during an import, when
// half of the objects exist.
// See docs/design/0009-export-and-import.md.
package hold

import (
	"context"
	"fmt"
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
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
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
	// Installations returns the installations of this program that run; nil if there is only this one. A Hold is
	// acknowledged once all of them rest. Installation is the name of this one.
	Installations func(context.Context) ([]string, error)
	Installation  string

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

// signal makes Run acknowledge the Holds.
func (g *Gate) signal() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// Run acknowledges each Hold once no reconcile is in flight, until the context ends.
func (g *Gate) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.changed:
		}
		if err := g.acknowledge(ctx); err != nil && ctx.Err() == nil {
			g.Log.Error(err, "cannot acknowledge the Hold; reconciles are suspended; retrying")
			time.AfterFunc(retryAfter, g.signal) // no event follows: nothing is reconciled
		}
	}
}

// acknowledge writes the status of the Holds, if it lacks that this installation rests, or that all do.
func (g *Gate) acknowledge(ctx context.Context) error {
	holds := g.unacknowledged()
	if len(holds) == 0 {
		return nil
	}
	running := []string{g.Installation}
	if g.Installations != nil {
		var err error
		if running, err = g.Installations(ctx); err != nil {
			return err
		}
	}
	for _, h := range holds {
		status, waits := acknowledgement(h, g.Installation, running, g.Now())
		if waits {
			time.AfterFunc(recheckInterval, g.signal) // one of the others may end before it rests
		}
		if status == nil {
			continue
		}
		g.Log.Info("instances, managed resources and Bindings are not reconciled while there is a Hold", "hold", h.GetName())
		if _, err := g.Cluster.WriteStatus(ctx, h, status, FieldManager); err != nil && !kube.IsStale(err) {
			return fmt.Errorf("write the status of Hold %s: %w", h.GetName(), err)
		}
	}
	return nil
}

// acknowledgement returns the status of a Hold for which an installation rests; nil if it has that already. It waits until
// all that are running rest.
func acknowledgement(hold *unstructured.Unstructured, installation string, running []string, now time.Time) (status map[string]any, waits bool) {
	at := now.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	resting, _, _ := unstructured.NestedMap(hold.Object, "status", "resting")
	_, known := resting[installation]
	waits = slices.ContainsFunc(running, func(name string) bool { return name != installation && resting[name] == nil })
	switch {
	case !waits && len(running) <= 1:
		return map[string]any{"restingSince": at}, false
	case known && waits:
		return nil, true
	case resting == nil:
		resting = map[string]any{}
	}
	if !known {
		resting[installation] = at
	}
	status = map[string]any{"resting": resting}
	if !waits {
		status["restingSince"] = at
	}
	return status, waits
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

// retryAfter is when a Hold is read or written again if no event for it arrives, and recheckInterval when installations that
// do not rest yet are looked up again.
const (
	retryAfter      = time.Second
	recheckInterval = 5 * time.Second
)

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
