// Package hold lets controllers rest while there is a Hold: while an import is under
// way, say, half of whose objects are there.
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
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/engine"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/watch"
)

// Kind is the kind of Holds.
var Kind = espalier.GroupVersion.WithKind(espalier.HoldKind)

// Manager is the field manager of what the gate writes.
const Manager = "espalier.dev/hold"

// Gate keeps passes back while there is a Hold, and lets them through when it goes.
// It is watched, so that a gate costs no request at rest. It is closed until it is
// known that there is no Hold. It is safe for concurrent use.
type Gate struct {
	Cluster *cluster.Client
	Hub     *watch.Hub
	// Wake asks for a pass over an object.
	Wake func(object.Key)
	Now  func() time.Time
	Log  logr.Logger

	open  sync.Once
	news  chan struct{} // holds one wake-up
	known chan struct{}
	blind blindness

	mu sync.Mutex
	// closed is why there may be no pass: the holds there are, or that nobody knows.
	closed bool
	holds  []*unstructured.Unstructured
	// resting are the objects whose passes were kept back; under way is how many
	// passes were let through and haven't ended.
	resting  map[object.Key]struct{}
	underWay int
	// gone are Holds that are known to have gone: they never come back.
	gone map[types.UID]bool
}

// Watch begins to watch for Holds. The channel is closed once it is known whether
// there are any.
func (g *Gate) Watch() (known <-chan struct{}) {
	g.open.Do(func() {
		g.closed, g.resting, g.gone = true, map[object.Key]struct{}{}, map[types.UID]bool{}
		g.news, g.known = make(chan struct{}, 1), make(chan struct{})
		g.blind.log = func(reason, message string) {
			g.Log.Info("cannot read Holds; nothing is reconciled until it is known whether there is one", "reason", reason, "message", message)
		}
		g.Hub.Serve(Kind, func(object.Key, watch.Cause) { g.look() })
		g.look()
	})
	return g.known
}

// look takes note of the Holds that there are. While they can't be read the gate stays
// as it was: closed at first.
func (g *Gate) look() {
	g.mu.Lock()
	if state := g.Hub.State(Kind, watch.All()); state.Phase != watch.Synced {
		if state.Phase == watch.Unavailable {
			g.blind.set(string(state.Reason), state.Message)
		}
		g.mu.Unlock()
		return
	}
	select {
	case <-g.known:
	default:
		close(g.known)
	}
	g.blind.end()
	g.holds = g.Hub.Select(Kind, "", labels.Everything())
	g.closed = len(g.holds) > 0
	var woken []object.Key
	if !g.closed {
		woken = slices.Collect(maps.Keys(g.resting))
		clear(g.resting)
	}
	g.mu.Unlock()
	for _, key := range woken {
		g.Wake(key)
	}
	g.tell()
}

// Blind is why Holds can't be read; empty if they can.
func (g *Gate) Blind() string { return g.blind.why() }

// tell lets Run see to what has changed.
func (g *Gate) tell() {
	select {
	case g.news <- struct{}{}:
	default:
	}
}

// Run tells on each Hold when it is obeyed, until the context ends.
func (g *Gate) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.news:
		}
		for _, h := range g.untold() {
			g.Log.Info("nothing is done about instances, managed resources and Bindings while there is a Hold", "hold", h.GetName())
			status := map[string]any{"restingSince": g.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")}
			if _, err := g.Cluster.WriteStatus(ctx, h, status, Manager); err != nil && !cluster.IsGone(err) && ctx.Err() == nil {
				g.Log.Error(err, "can't tell on the Hold that it is obeyed, which it is; it is tried again", "hold", h.GetName())
				time.AfterFunc(lookAgain, g.tell) // nothing else brings it, since nothing goes on
			}
		}
	}
}

// untold are the Holds that are obeyed and don't say so.
func (g *Gate) untold() []*unstructured.Unstructured {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.underWay > 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(g.holds), func(h *unstructured.Unstructured) bool {
		since, _, _ := unstructured.NestedString(h.Object, "status", "restingSince")
		return since != ""
	})
}

// Keep returns a reconciler that passes on what the gate lets through.
func (g *Gate) Keep(kind schema.GroupVersionKind, r engine.Reconciler) engine.Reconciler {
	return kept{g, kind, r}
}

type kept struct {
	gate *Gate
	kind schema.GroupVersionKind
	next engine.Reconciler
}

// lookAgain is when to ask again about a Hold that the watch hasn't told of.
const lookAgain = time.Second

// Reconcile is a pass, unless that is kept back: then the end of the Hold brings it.
func (k kept) Reconcile(ctx context.Context, key object.Key) outcome.Outcome {
	if !k.gate.enter(key) {
		return outcome.Done()
	}
	defer k.gate.leave()
	held, err := k.gate.unheard(ctx, k.kind, key)
	switch {
	case err != nil:
		return outcome.Fail(err)
	case held:
		return outcome.Wait(lookAgain)
	}
	return k.next.Reconcile(ctx, key)
}

func (g *Gate) enter(key object.Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		g.resting[key] = struct{}{}
		return false
	}
	g.underWay++
	return true
}

func (g *Gate) leave() {
	g.mu.Lock()
	g.underWay--
	last := g.underWay == 0 && g.closed
	g.mu.Unlock()
	if last {
		g.tell()
	}
}

// unheard says whether an object waits for a Hold that the watch hasn't told of
// yet. It asks the server once for each import.
func (g *Gate) unheard(ctx context.Context, kind schema.GroupVersionKind, key object.Key) (bool, error) {
	o, there := g.Hub.Served(kind, key.Namespace, key.Name)
	if !there {
		return false, nil
	}
	name, uid, said := strings.Cut(o.GetAnnotations()[espalier.ImportAnnotation], "/")
	if !said || name == "" {
		return false, nil
	}
	g.mu.Lock()
	gone := g.gone[types.UID(uid)]
	g.mu.Unlock()
	if gone {
		return false, nil
	}
	live, err := g.Cluster.Get(ctx, Kind, "", name)
	if err != nil && !cluster.IsAbsent(err, name) {
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
