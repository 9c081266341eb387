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
	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/dryrun"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/takeover"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
)

// TakeoverFindings are what the controllers would do to a cluster.
type TakeoverFindings struct {
	Findings
	// Objects are those that the controllers look after, that instances are composed of, and
	// that would be written otherwise.
	Objects []takeover.Observed
	// Failed are the objects whose last pass failed, with why.
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
	out.Unsettled, err = c.awaitIdle(ctx, overlay, ended, patience)
	if err == nil {
		out.Objects, err = c.observed(ctx, overlay)
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

// awaitIdle waits until the controllers rest. It puts back on the channel what came of Run.
func (c *Controllers) awaitIdle(ctx context.Context, overlay *dryrun.Overlay, ended chan error, patience time.Duration) (unsettled bool, err error) {
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
			if why := c.Serving(); why != nil {
				return false, fmt.Errorf("after %s: %w", patience, why)
			}
			return true, nil
		case <-tick.C:
		}
		pending, now := overlay.Busy()
		if c.Serving() != nil || pending > 0 || now != made || !c.Engine.Idle() {
			made, since = now, time.Now()
			continue
		}
		if time.Since(since) >= quietPeriod {
			return false, nil
		}
	}
}

// observed are the objects that the controllers look after or write, and those that
// instances are composed of.
func (c *Controllers) observed(ctx context.Context, overlay *dryrun.Overlay) ([]takeover.Observed, error) {
	known := map[object.Key]bool{}
	var out []takeover.Observed
	add := func(o takeover.Observed, key object.Key) {
		if !known[key] {
			known[key] = true
			out = append(out, o)
		}
	}
	served := c.served()
	looked := map[object.Key]bool{}
	for _, o := range served {
		looked[object.KeyOf(o)] = true
	}
	for _, change := range overlay.Changes() {
		o := change.After
		if o == nil {
			o = change.Before
		}
		key := object.KeyOf(o)
		add(takeover.Observed{Before: change.Before, After: change.After, Deletion: change.Deletion, Served: looked[key]}, key)
	}
	kinds, ids := map[schema.GroupKind]bool{}, map[string]bool{}
	for _, o := range served {
		ids[inventory.ApplySetID(object.KeyOf(o))] = true
		add(takeover.Observed{Before: o, After: o, Served: true}, object.KeyOf(o))
		for _, gk := range inventory.Read(o).GroupKinds() {
			kinds[gk] = true
		}
	}
	client, err := dynamic.NewForConfig(overlay.Wrap(c.options.Config))
	if err != nil {
		return nil, err
	}
	for gk := range kinds {
		children, err := c.children(ctx, client, gk)
		if err != nil {
			return nil, err
		}
		for i := range children {
			if c := &children[i]; ids[c.GetLabels()[v1alpha1.ApplySetPartOfLabel]] {
				add(takeover.Observed{Before: c, After: c}, object.KeyOf(c))
			}
		}
	}
	return out, nil
}

// children are the objects of a kind that instances are composed of; none of a kind that no
// server knows.
func (c *Controllers) children(ctx context.Context, client dynamic.Interface, gk schema.GroupKind) ([]unstructured.Unstructured, error) {
	kind, err := c.Kinds.Preferred(ctx, gk)
	if cluster.IsUnavailable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	resource, err := c.Kinds.Resolve(ctx, kind)
	if err != nil {
		return nil, err
	}
	list, err := client.Resource(resource.GVR).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.ApplySetPartOfLabel})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource.GVR.GroupResource(), err)
	}
	return list.Items, nil
}

// served are the objects of all kinds that controllers run for, in order.
func (c *Controllers) served() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, kind := range c.Engine.Kinds() {
		if c.Hub.State(kind, watch.All()).Phase == watch.Synced {
			out = append(out, c.Hub.Select(kind, "", labels.Everything())...)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	return out
}

// observer takes note of the passes that fail.
type observer struct {
	mu     sync.Mutex
	failed map[object.Key]string
}

func (o *observer) observe(p outcome.Pass) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.failed, p.Key)
	if p.Err != nil && !errors.Is(p.Err, context.Canceled) {
		o.failed[p.Key] = cluster.Discreet(p.Err)
	}
}

// silent records no events: they would be written.
type silent struct{}

// Event implements telemetry.Recorder.
func (silent) Event(runtime.Object, telemetry.Severity, string, string) {}
