package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
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

// TakeoverFindings are what the controllers would do to a cluster.
type TakeoverFindings struct {
	Findings
	// Objects are those that the controllers look after, that instances are composed of, and
	// that would be written otherwise.
	Objects []takeover.Observed
	// Failed are the objects whose last reconcile failed, with why.
	Failed map[object.Key]string
	// Unsettled says that the controllers were still at work when the time was up.
	Unsettled bool
}

// How it is found out that the controllers have nothing to do: nothing waits, no request is
// under way, and none was made for so long.
const (
	quietPeriod  = time.Second
	pollInterval = 50 * time.Millisecond
)

// PlanTakeover runs the controllers over a cluster until they rest, or for so long at most. The
// API server checks what they write and stores none of it.
func PlanTakeover(ctx context.Context, o ManagerOptions, patience time.Duration) (TakeoverFindings, error) {
	var out TakeoverFindings
	var err error
	if out.Findings, err = Check(ctx, o); err != nil {
		return out, err
	}
	if out.Refused != nil {
		return out, nil
	}
	client, err := dynamic.NewForConfig(o.Config)
	if err != nil {
		return out, fmt.Errorf("connect to the API server: %w", err)
	}
	out.Notes = append(out.Notes, formerNotes(ctx, client, o.Dialects)...)
	if err := refuseHeld(ctx, client); err != nil {
		return out, err
	}
	overlay := dryrun.New()
	seen := &observer{failed: map[object.Key]string{}}
	c, err := NewControllers(Options{
		Config: overlay.Wrap(o.Config), Workers: o.Workers, Log: logr.Discard(), Events: silent{}, Observe: seen.observe,
		Dialects: o.Dialects, Usages: o.Usages, Functions: o.Functions, Version: o.Version, MoreColumns: o.MoreColumns,
	})
	if err != nil {
		return out, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	out.Unsettled, err = awaitIdle(ctx, activity{c.Serving, overlay.Busy, c.Engine.Idle}, ended, patience)
	if err == nil {
		out.Objects, err = c.findObserved(ctx, overlay)
	}
	stop()
	if failed := <-ended; err == nil && failed != nil && !errors.Is(failed, context.Canceled) {
		err = failed
	}
	out.Failed = seen.failed
	return out, err
}

// refuseHeld fails where a Hold would keep the controllers from doing anything.
func refuseHeld(ctx context.Context, client dynamic.Interface) error {
	list, err := client.Resource(espalier.GroupVersion.WithResource("holds")).List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) == 0 {
		return nil // most likely there is no such kind yet
	}
	return fmt.Errorf("the controllers would do nothing while there is Hold %s; delete it first", list.Items[0].GetName())
}

// activity tells how far controllers are.
type activity struct {
	// serving is nil once they run.
	serving func() error
	// busy is how many requests await their answers, and how many were made.
	busy func() (pending int, made uint64)
	// idle says that nothing is queued.
	idle func() bool
}

// awaitIdle waits until the controllers have nothing to do. It puts back on the channel what
// came of Run.
func awaitIdle(ctx context.Context, a activity, ended chan error, patience time.Duration) (unsettled bool, err error) {
	deadline := time.NewTimer(patience)
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
				return false, fmt.Errorf("after %s: %w", patience, why)
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

// findObserved are the objects that the controllers look after or write, and those that
// instances are composed of.
func (c *Controllers) findObserved(ctx context.Context, overlay *dryrun.Overlay) ([]takeover.Observed, error) {
	client, err := dynamic.NewForConfig(overlay.Wrap(c.options.Config))
	if err != nil {
		return nil, err
	}
	children := func(gk schema.GroupKind) ([]unstructured.Unstructured, error) {
		return children(ctx, client, c.Kinds, gk)
	}
	return observed(served(c.Engine.Kinds(), c.Hub), overlay.Changes(), children)
}

// observed are the objects that would be changed, those that are served, and those that
// instances are composed of, each once.
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

// kinds finds how kinds are served; *kube.Kinds does.
type kinds interface {
	Preferred(ctx context.Context, gk schema.GroupKind) (schema.GroupVersionKind, error)
	Resolve(ctx context.Context, gvk schema.GroupVersionKind) (kube.Resource, error)
}

// children are the objects of a kind that instances are composed of; none of a kind that no
// server knows.
func children(ctx context.Context, client dynamic.Interface, kinds kinds, gk schema.GroupKind) ([]unstructured.Unstructured, error) {
	kind, err := kinds.Preferred(ctx, gk)
	if kube.IsUnavailable(err) {
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

// caches hold the objects of kinds that are served; *watch.Hub is one.
type caches interface {
	State(gvk schema.GroupVersionKind, s watch.Selection) watch.State
	Select(gvk schema.GroupVersionKind, namespace string, selector labels.Selector) []*unstructured.Unstructured
}

// served are the objects of some kinds, sorted.
func served(kinds []schema.GroupVersionKind, from caches) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, kind := range kinds {
		if from.State(kind, watch.All()).Phase == watch.Synced {
			out = append(out, from.Select(kind, "", labels.Everything())...)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	return out
}

// observer records the reconciles that fail.
type observer struct {
	mu     sync.Mutex
	failed map[object.Key]string
}

func (o *observer) observe(p reconcile.Run) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.failed, p.Key)
	if p.Err != nil && !errors.Is(p.Err, context.Canceled) {
		o.failed[p.Key] = kube.RedactedMessage(p.Err)
	}
}

// silent records no events: they would be written.
type silent struct{}

// Event implements telemetry.Recorder.
func (silent) Event(runtime.Object, telemetry.Severity, string, string) {}
