package instance

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

type removeFunc func(context.Context, *unstructured.Unstructured) error

// The object's event triggers the next reconcile.
func (r *Reconciler) deleteChild(ctx context.Context, o *unstructured.Unstructured) error {
	_, err := r.Cluster.DeleteIfMetadataUnchanged(ctx, o, metav1.DeletePropagationBackground)
	return err
}

// deleteAndRecord is deleteChild for a reconcile that continues as soon as an object is gone: it is gone from the cache
// then. Gone reports whether any is.
func (r *Reconciler) deleteAndRecord(s *subject, gone *atomic.Bool) removeFunc {
	return func(ctx context.Context, o *unstructured.Unstructured) error {
		var caches writer.Caches = r.Children
		if o.GroupVersionKind() == r.Kind {
			caches = r.Instances
		}
		self := watch.Subscriber{Key: s.key}
		isGone, err := r.Cluster.DeleteIfMetadataUnchanged(ctx, o, metav1.DeletePropagationBackground)
		if isGone {
			caches.RecordGone(o.GroupVersionKind(), o.GetNamespace(), o.GetName(), string(o.GetUID()), self)
			gone.Store(true)
		}
		return err
	}
}

// It deletes objects by the given function, removes the instance's marks from orphaned ones, and marks retained ones,
// in parallel. What stays keeps no owner reference to the instance. It notes the answers, and reports whether any
// request was refused.
func (r *Reconciler) executeRemoval(ctx context.Context, s *subject, step plan.RemovalStep, remove removeFunc) (refused bool) {
	var requests []*removalRequest
	for _, o := range step.Delete {
		requests = append(requests, &removalRequest{o: o, verb: "delete", decision: "Delete", do: func(ctx context.Context) error {
			return remove(ctx, o)
		}})
	}
	change := func(o *unstructured.Unstructured, decision string, to map[string]any) *removalRequest {
		return &removalRequest{o: o, verb: "patch", decision: decision, do: func(ctx context.Context) error {
			return r.Cluster.PatchIfExists(ctx, o, to,
				v1alpha1.ChildManager)
		}}
	}
	for _, o := range step.Release {
		c := change(o, "Release", inventory.ReleasePatch(o, s.instance))
		c.releases = true
		requests = append(requests, c)
	}
	for _, o := range step.Retain {
		requests = append(requests, change(o, "Retain", inventory.RetainPatch(o, s.instance)))
	}
	for _, o := range step.Disown {
		requests = append(requests, change(o, "Disown", inventory.DisownPatch(o, s.instance)))
	}
	work := make([]func() error, len(requests))
	for i, c := range requests {
		work[i] = func() error { r.send(ctx, c); return nil }
	}
	s.errs = append(s.errs, inParallel(work)...)
	return r.noteAnswers(s, requests)
}

type removalRequest struct {
	o        *unstructured.Unstructured
	verb     string
	decision string // in traces
	releases bool
	do       func(context.Context) error

	answered bool
	reason   report.Reason // why it was refused; empty if it wasn't
	message  string
}

func (r *Reconciler) send(ctx context.Context, c *removalRequest) {
	ctx, span := tracing.StartNode(ctx, tracing.Node{ID: inventory.Node(c.o), Decision: c.decision})
	err := c.do(ctx)
	span.End(err)
	switch {
	case errors.Is(err, kube.ErrMetadataChanged):
		return // the event of the change triggers the next reconcile
	case err != nil && errors.Is(ctx.Err(), context.Canceled):
		return // the program stops, or loses its lease: that says nothing about the object
	}
	if err != nil {
		reason, message := r.Cluster.DiagnoseError(ctx, c.o, c.verb, err)
		c.reason, c.message = report.Reason(reason), message
		logr.FromContextOrDiscard(ctx).Info("cannot remove an object", "object", object.KeyOf(c.o), "verb", c.verb, "reason", c.reason, "message", c.message)
	}
	c.answered = true // unless there was a panic, which is an error already
}

func (r *Reconciler) noteAnswers(s *subject, requests []*removalRequest) (refused bool) {
	now := r.Now()
	var released []*unstructured.Unstructured
	for _, c := range requests {
		switch {
		case !c.answered:
		case c.reason != "":
			refused = true
			s.memory.updateAttempts(c.o, func(a plan.DeletionAttempts) plan.DeletionAttempts { return a.Refused(c.reason, c.message, c.o, now) })
		default:
			s.memory.updateAttempts(c.o, func(a plan.DeletionAttempts) plan.DeletionAttempts { return a.Accepted(now) })
			if c.releases {
				delete(s.memory.proved, c.o.GetUID())
				released = append(released, c.o)
			}
		}
	}
	if len(released) > 0 {
		r.Events.Event(s.instance, telemetry.Normal, "Orphaned", "left in place without the labels of this instance: "+listed(released))
	}
	return refused
}
