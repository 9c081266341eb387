package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/cluster"
	"github.com/espalier-dev/espalier/internal/dryrun"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/outcome"
	"github.com/espalier-dev/espalier/internal/takeover"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/watch"
)

// Rehearsal is what the controllers would do to a cluster, by their own account.
type Rehearsal struct {
	Findings
	// Changes are the objects that would be written.
	Changes []dryrun.Change
	// Served are the objects that the controllers look after, as they would be.
	Served []*unstructured.Unstructured
	// Failed are the objects whose last pass failed, with why.
	Failed map[object.Key]string
	// Warnings are the events that would be recorded.
	Warnings []takeover.Warning
	// Unsettled says that the controllers were still at work when the time was up.
	Unsettled bool
}

// How it is found out that the controllers have nothing to do: nothing waits, no request is
// under way, and none was made for so long.
const (
	quiet    = time.Second
	interval = 50 * time.Millisecond
)

// Rehearse runs the controllers over a cluster until they rest, or for so long at most. The
// API server checks what they write and stores none of it.
func Rehearse(ctx context.Context, o ManagerOptions, patience time.Duration) (Rehearsal, error) {
	var out Rehearsal
	var err error
	if out.Findings, err = Check(ctx, o); err != nil {
		return out, err
	}
	if out.Refused != nil {
		return out, nil
	}
	overlay := dryrun.New()
	seen := &observer{failed: map[object.Key]string{}}
	c, err := NewControllers(Options{
		Config: overlay.Wrap(o.Config), Workers: o.Workers, Log: logr.Discard(), Events: seen, Observe: seen.observe,
		Dialects: o.Dialects, Usages: o.Usages, Functions: o.Functions, Version: o.Version, MoreColumns: o.MoreColumns,
	})
	if err != nil {
		return out, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	out.Unsettled, err = c.settle(ctx, overlay, ended, patience)
	if err == nil {
		out.Served = c.served()
	}
	stop()
	if failed := <-ended; err == nil && failed != nil && !errors.Is(failed, context.Canceled) {
		err = failed
	}
	out.Changes, out.Failed, out.Warnings = overlay.Changes(), seen.failed, seen.warnings
	return out, err
}

// settle waits until the controllers rest. It puts back on the channel what came of Run.
func (c *Controllers) settle(ctx context.Context, overlay *dryrun.Overlay, ended chan error, patience time.Duration) (unsettled bool, err error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(interval)
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
		if time.Since(since) >= quiet {
			return false, nil
		}
	}
}

// served are the objects of all kinds that controllers run for, in order.
func (c *Controllers) served() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, kind := range c.Engine.Kinds() {
		if c.Hub.State(kind, watch.All()).Phase != watch.Synced {
			continue
		}
		out = append(out, c.Hub.Select(kind, "", labels.Everything())...)
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	return out
}

// observer takes note of what controllers tell.
type observer struct {
	mu       sync.Mutex
	failed   map[object.Key]string
	warnings []takeover.Warning
}

func (o *observer) observe(p outcome.Pass) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.failed, p.Key)
	if p.Err != nil && !errors.Is(p.Err, context.Canceled) {
		o.failed[p.Key] = cluster.Discreet(p.Err)
	}
}

// Event implements telemetry.Recorder.
func (o *observer) Event(about runtime.Object, severity telemetry.Severity, reason, message string) {
	u, ok := about.(interface {
		GetNamespace() string
		GetName() string
		GroupVersionKind() schema.GroupVersionKind
	})
	if severity != telemetry.Warning || !ok {
		return
	}
	kind := u.GroupVersionKind()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.warnings = append(o.warnings, takeover.Warning{
		Object: object.Key{Group: kind.Group, Kind: kind.Kind, Namespace: u.GetNamespace(), Name: u.GetName()},
		Reason: reason, Message: message,
	})
}
