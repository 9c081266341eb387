package activation

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/managed/activation/plan"
	"github.com/espalier-dev/espalier/internal/telemetry"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

func (r *Reconciler) writer() writer.Writer {
	return writer.Writer{Cluster: r.Cluster, Caches: r.Cache, Events: r.Events, Manager: FieldManager, StatusManager: FieldManager}
}

// Kinds are installed only after that.
func (r *Reconciler) addFinalizers(ctx context.Context, s *reconcileState) reconcile.Result {
	for _, a := range s.sorted() {
		o := &writer.Object{Unstructured: s.activations[a]}
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		out := r.writer().AddFinalizers(ctx, o, resource.ActivationFinalizer)
		if out.IsFinal() {
			return out
		}
		s.activations[a] = o.Unstructured
	}
	return reconcile.Result{}
}

// It removes the finalizers of activations that have no kinds left.
func (r *Reconciler) report(ctx context.Context, s *reconcileState) reconcile.Result {
	last := reconcile.Result{}
	for _, a := range s.sorted() {
		o := &writer.Object{Unstructured: s.activations[a]}
		var out reconcile.Result
		if slices.Contains(s.plan.Release, a) {
			out = r.writer().RemoveFinalizers(ctx, o, resource.ActivationFinalizer)
		} else {
			out = r.writeStatus(ctx, o, s.plan.Statuses[a])
		}
		if out.IsFinal() {
			last = out // the rest does not depend on it
		}
	}
	return last
}

func (r *Reconciler) writeStatus(ctx context.Context, o *writer.Object, status plan.Status) reconcile.Result {
	before := condition.Read(o.Unstructured)
	ready := v1alpha1.Condition{
		Type: resource.Ready, Status: status.Ready, Reason: string(status.Reason), Message: status.Message, ObservedGeneration: o.GetGeneration(),
	}
	kinds := map[string]any{"activated": int64(status.Kinds.Activated), "served": int64(status.Kinds.Served)}
	if n := status.Kinds.Deactivated; n > 0 {
		kinds["deactivated"] = int64(n)
	}
	body := map[string]any{
		"conditions":         before.Mark(ready, r.Now()).MarkProgress(status.Progress(), o.GetGeneration(), r.Now()).Unstructured(),
		"observedGeneration": o.GetGeneration(), "kinds": kinds,
	}
	var all []any
	for _, t := range status.Types {
		item := map[string]any{"type": t.Type, "state": string(t.State)}
		if t.Kind != "" {
			item["kind"] = t.Kind
		}
		if t.Message != "" {
			item["message"] = t.Message
		}
		all = append(all, item)
	}
	if len(all) > 0 {
		body["types"] = all
	}
	about := o.Unstructured
	wrote, out := r.writer().WriteStatus(ctx, o, body)
	if was, _ := before.Get(resource.Ready); wrote && (was.Reason != string(status.Reason) || was.Status != status.Ready) {
		severity := telemetry.Warning
		if status.Ready == metav1.ConditionTrue || status.Reason == resource.Installing || status.Reason == resource.Deleting {
			severity = telemetry.Normal
		}
		r.Events.Event(about, severity, string(status.Reason), status.Message)
	}
	return out
}

func (s *reconcileState) sorted() []string {
	var out []string
	for name := range s.activations {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
