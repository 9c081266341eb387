package migrate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/dryrun"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
	"github.com/espalier-dev/espalier/internal/takeover"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// How it is decided that the controllers have nothing to do: nothing is queued, no request is
// in flight, and none was made for the quiet period.
const (
	quietPeriod  = time.Second
	pollInterval = 50 * time.Millisecond
)

// Controllers are what a Simulation runs.
type Controllers interface {
	// Run runs the controllers until the context ends.
	Run(ctx context.Context) error
	// CheckStarted returns nil once the controllers run, and why they do not before that.
	CheckStarted() error
	// Idle reports whether no reconcile is queued or running.
	Idle() bool
	// Served are the kinds whose objects the controllers reconcile.
	Served() []schema.GroupVersionKind
}

// Simulation runs controllers over a cluster without changing it: their requests go through
// the overlay, which has the API server check what they write and keeps it from being stored.
type Simulation struct {
	Controllers Controllers
	Overlay     *dryrun.Overlay
	// Client reads through the overlay.
	Client dynamic.Interface
	Caches Caches
	Kinds  Kinds
}

// Run runs the controllers until they are idle, or for the timeout at most, which makes the
// result unsettled. It returns the objects that the controllers reconcile or would change, and
// those that instances are composed of.
func (s Simulation) Run(ctx context.Context, timeout time.Duration) (objects []takeover.Observed, unsettled bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.Controllers.Run(ctx) }()
	unsettled, err = awaitIdle(ctx, activity{s.Controllers.CheckStarted, s.Overlay.RequestCounts, s.Controllers.Idle}, ended, timeout)
	if err == nil {
		objects, err = s.findObserved(ctx)
	}
	stop()
	if failed := <-ended; err == nil && failed != nil && !errors.Is(failed, context.Canceled) {
		err = failed
	}
	return objects, unsettled, err
}

// RefuseHeld returns an error if a Hold keeps the controllers from doing anything.
func RefuseHeld(ctx context.Context, client dynamic.Interface) error {
	list, err := client.Resource(espalier.GroupVersion.WithResource("holds")).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return nil // the kind is most likely not installed yet
	}
	return fmt.Errorf("the controllers do nothing while there is Hold %s; delete it first", list.Items[0].GetName())
}

// activity reports what controllers are doing.
type activity struct {
	// serving returns nil once they run.
	serving func() error
	// busy returns how many requests are in flight, and how many were made so far.
	busy func() (pending int, made uint64)
	// idle reports whether nothing is queued.
	idle func() bool
}

// awaitIdle waits until the controllers have nothing to do, or reports them as unsettled after
// the timeout. It leaves a value in the channel for the caller that waits for Run's end.
func awaitIdle(ctx context.Context, a activity, ended chan error, timeout time.Duration) (unsettled bool, err error) {
	deadline := time.NewTimer(timeout)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var made uint64
	since := time.Now()
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case err := <-ended:
			ended <- nil
			if err == nil {
				err = errors.New("the controllers ended")
			}
			return false, err
		case <-deadline.C:
			if why := a.serving(); why != nil {
				return false, fmt.Errorf("after %s: %w", timeout, why)
			}
			return true, nil
		case <-tick.C:
		}
		pending, now := a.busy()
		if a.serving() != nil || pending > 0 || now != made || !a.idle() {
			made, since = now, time.Now()
			continue
		}
		if time.Since(since) >= quietPeriod {
			return false, nil
		}
	}
}

// findObserved returns the objects that the controllers reconcile or change, and those that
// instances are composed of.
func (s Simulation) findObserved(ctx context.Context) ([]takeover.Observed, error) {
	children := func(gk schema.GroupKind) ([]unstructured.Unstructured, error) {
		return children(ctx, s.Client, s.Kinds, gk)
	}
	return observed(served(s.Controllers.Served(), s.Caches), s.Overlay.Changes(), children)
}

// observed returns the objects that would be changed, those that are reconciled, and those
// that instances are composed of, each once.
func observed(served []*unstructured.Unstructured, changes []dryrun.Change, children func(schema.GroupKind) ([]unstructured.Unstructured, error)) ([]takeover.Observed, error) {
	known := map[object.Key]bool{}
	var out []takeover.Observed
	add := func(o takeover.Observed, key object.Key) {
		if !known[key] {
			known[key] = true
			out = append(out, o)
		}
	}
	isServed := map[object.Key]bool{}
	for _, o := range served {
		isServed[object.KeyOf(o)] = true
	}
	for _, change := range changes {
		o := change.After
		if o == nil {
			o = change.Before
		}
		key := object.KeyOf(o)
		if key.Kind == "Secret" && key.Name == v1alpha1.SigningKeySecret {
			continue // the controllers create another key, and the plan shows none
		}
		add(takeover.Observed{Before: change.Before, After: change.After, Deletion: change.Deletion, Served: isServed[key]}, key)
	}
	kinds, ids := map[schema.GroupKind]bool{}, map[string]bool{}
	for _, o := range served {
		ids[inventory.ApplySetID(object.KeyOf(o))] = true
		add(takeover.Observed{Before: o, After: o, Served: true}, object.KeyOf(o))
		for _, gk := range inventory.Read(o).GroupKinds() {
			kinds[gk] = true
		}
	}
	for gk := range kinds {
		found, err := children(gk)
		if err != nil {
			return nil, err
		}
		for i := range found {
			if c := &found[i]; ids[c.GetLabels()[v1alpha1.ApplySetPartOfLabel]] {
				add(takeover.Observed{Before: c, After: c}, object.KeyOf(c))
			}
		}
	}
	return out, nil
}

// Kinds finds how kinds are served; *kube.Kinds implements it.
type Kinds interface {
	Preferred(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, error)
	Resolve(ctx context.Context, gvk schema.GroupVersionKind) (kube.Resource, error)
}

// children returns the objects of a kind that instances are composed of; none if the kind is
// not served.
func children(ctx context.Context, client dynamic.Interface, kinds Kinds, gk schema.GroupKind) ([]unstructured.Unstructured, error) {
	kind, err := kinds.Preferred(ctx, gk)
	if kube.IsNoKindMatch(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	resource, err := kinds.Resolve(ctx, kind)
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(resource.GVR).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ApplySetPartOfLabel})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource.GVR.GroupResource(), err)
	}
	return list.Items, nil
}

// Caches hold the objects of kinds that are reconciled; *watch.Hub implements it.
type Caches interface {
	State(gvk schema.GroupVersionKind, s watch.Selection) watch.State
	Select(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) []*unstructured.Unstructured
}

// served returns the objects of kinds whose caches are synced, sorted.
func served(kinds []schema.GroupVersionKind, from Caches) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, kind := range kinds {
		if from.State(kind, watch.All()).Phase == watch.Synced {
			out = append(out, from.Select(kind, "", labels.Everything())...)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	return out
}

// Failures records the objects whose last reconcile failed. It is safe for concurrent use.
type Failures struct {
	mu     sync.Mutex
	failed map[object.Key]string
}

// Observe records the result of a reconcile.
func (f *Failures) Observe(run reconcile.Run) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.failed, run.Key)
	if run.Err != nil && !errors.Is(run.Err, context.Canceled) {
		if f.failed == nil {
			f.failed = map[object.Key]string{}
		}
		f.failed[run.Key] = kube.RedactedMessage(run.Err)
	}
}

// Messages are the errors by object.
func (f *Failures) Messages() map[object.Key]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.failed)
}

// NoEvents is a telemetry.Recorder that drops all events, which would be written to the cluster.
type NoEvents struct{}

// Event implements telemetry.Recorder.
func (NoEvents) Event(runtime.Object, telemetry.Severity, string, string) {}
