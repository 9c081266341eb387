package packages

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/espalier-dev/espalier/internal/kube/writer"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// Reconciler sets the conditions of Functions that no package manager manages. If a package manager manages a
// Function, it removes its own conditions and leaves other ones unchanged: two controllers that write the same
// condition would overwrite each other forever.
type Reconciler struct {
	Registry *Registry
	Cluster  *kube.Client
	Hub      *watch.Hub
	Now      func() time.Time
}

// Reconcile reconciles one Function.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	o, ok := r.Hub.GetCached(FunctionKind, "", key.Name)
	if !ok || o.GetDeletionTimestamp() != nil {
		return reconcile.Done()
	}
	return r.write(ctx, o, r.Registry.reportFunction(o))
}

// Revisions is the Reconciler of FunctionRevisions.
type Revisions struct{ Reconciler }

// Reconcile reconciles one FunctionRevision.
func (r *Revisions) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	o, ok := r.Hub.GetCached(RevisionKind, "", key.Name)
	if !ok || o.GetDeletionTimestamp() != nil {
		return reconcile.Done()
	}
	return r.write(ctx, o, r.Registry.reportRevision(o))
}

func (r *Reconciler) write(ctx context.Context, o *unstructured.Unstructured, report conditionReport) reconcile.Result {
	before := condition.Read(o)
	after := report.merge(before, o.GetGeneration(), r.Now())
	if object.Digest(before.Unstructured()) == object.Digest(after.Unstructured()) {
		return reconcile.Done()
	}
	status, _ := o.Object["status"].(map[string]any)
	status = maps.Clone(status)
	if status == nil {
		status = map[string]any{}
	}
	status["conditions"], status["observedGeneration"] = after.Unstructured(), o.GetGeneration()
	if report.retract {
		delete(status, "observedGeneration")
	}
	w := writer.Writer{Cluster: r.Cluster, Caches: r.Hub, StatusManager: v1alpha1.StatusManager}
	if _, out := w.WriteStatus(ctx, &writer.Object{Unstructured: o}, status); out.IsFinal() {
		return out
	}
	return reconcile.Done()
}

// reportFunction returns what to report in the status of a Function. Whether a package manager manages it is read from o, which the
// status is written over: the registry may have read an earlier revision.
func (c *Registry) reportFunction(o *unstructured.Unstructured) conditionReport {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f := c.routeInput(o.GetName())
	if f.object == nil || f.unsynced != "" {
		return conditionReport{}
	}
	if f.object = readFunction(o); f.isManagedElsewhere() {
		return conditionReport{retract: true}
	}
	return reportFunction(routeFor(f), f.local)
}

func (f routeInput) isManagedElsewhere() bool {
	return f.object.managedElsewhere || slices.ContainsFunc(f.revisions, func(r revision) bool { return r.controlled })
}

// reportRevision is reportFunction for a FunctionRevision.
func (c *Registry) reportRevision(o *unstructured.Unstructured) conditionReport {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r := readRevision(o)
	f := c.routeInput(r.function)
	if _, known := c.revisions[r.name]; !known || f.unsynced != "" {
		return conditionReport{}
	}
	if r.managedElsewhere {
		return conditionReport{retract: true}
	}
	return reportRevision(r, routeFor(f))
}
