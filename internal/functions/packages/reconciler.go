package packages

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/espalier-dev/espalier/internal/writer"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/reconcile"
)

// Reconciler says on Functions how they are served, as far as no package manager does.
// Where one looks after a function, it takes back what it has said and leaves the rest
// alone: two that write the same condition would do so for ever.
type Reconciler struct {
	Catalog *Catalog
	Cluster *kube.Client
	Hub     *watch.Hub
	Now     func() time.Time
}

// Reconcile is a pass over one Function.
func (r *Reconciler) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	o, ok := r.Hub.Served(FunctionKind, "", key.Name)
	if !ok || o.GetDeletionTimestamp() != nil {
		return reconcile.Done()
	}
	return r.write(ctx, o, r.Catalog.reportFunction(key.Name))
}

// Revisions is the Reconciler for FunctionRevisions.
type Revisions struct{ Reconciler }

// Reconcile is a pass over one FunctionRevision.
func (r *Revisions) Reconcile(ctx context.Context, key object.Key) reconcile.Result {
	o, ok := r.Hub.Served(RevisionKind, "", key.Name)
	if !ok || o.GetDeletionTimestamp() != nil {
		return reconcile.Done()
	}
	return r.write(ctx, o, r.Catalog.reportRevision(key.Name))
}

func (r *Reconciler) write(ctx context.Context, o *unstructured.Unstructured, report reported) reconcile.Result {
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
	status["conditions"] = after.Unstructured()
	w := writer.Writer{Cluster: r.Cluster, Caches: r.Hub, StatusManager: v1alpha1.StatusManager}
	if _, out := w.WriteStatus(ctx, &writer.Object{Unstructured: o}, status); out.IsFinal() {
		return out
	}
	return reconcile.Done()
}

// reportFunction is what is to be said about a Function.
func (c *Catalog) reportFunction(name string) reported {
	c.mu.RLock()
	defer c.mu.RUnlock()
	f := c.facts(name)
	switch {
	case f.object == nil, f.unseen != "":
		return reported{}
	case f.object.foreign || slices.ContainsFunc(f.revisions, func(r revision) bool { return r.foreign }):
		return reported{retract: true}
	}
	return reportFunction(decide(f), f.given)
}

// reportRevision is what is to be said about a FunctionRevision.
func (c *Catalog) reportRevision(name string) reported {
	c.mu.RLock()
	defer c.mu.RUnlock()
	r, ok := c.revisions[name]
	f := c.facts(r.of)
	switch {
	case !ok, f.unseen != "":
		return reported{}
	case r.foreign:
		return reported{retract: true}
	}
	return reportRevision(r, decide(f))
}
