package controller

import (
	"cmp"
	"context"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"

	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// suspended reports whether an object is left alone: a user has paused it, or Crossplane runs beside this program.
func (c Config) suspended(ctx context.Context, o *writer.Object) (out reconcile.Result, waits bool) {
	if o.GetAnnotations()[PausedAnnotation] == "true" {
		paused := v1alpha1.Condition{Type: typeSynced, Status: condition.False, Reason: reasonPaused, Message: "the annotation " + PausedAnnotation + " is true", ObservedGeneration: o.GetGeneration()}
		status := maps.Clone(statusOf(o.Object))
		status["conditions"] = condition.Read(o.Unstructured).Mark(paused, c.Now()).Unstructured()
		_, out := c.writer().WriteStatus(ctx, o, status)
		return out.OrDone(), true
	}
	if c.Crossplane != nil && c.Crossplane.IsRunning(ctx) {
		return reconcile.RequeueAfter(crossplaneInterval), true
	}
	return out, false
}

// reasonPaused is the reason of the condition Synced of a paused object.
const reasonPaused = "ReconcilePaused"

// writeConditions writes a status with conditions, and Ready, which sums them up, but for RuntimeActive.
func (c Config) writeConditions(ctx context.Context, o *writer.Object, status map[string]any, waits bool, all ...v1alpha1.Condition) (wrote bool, out reconcile.Result) {
	after := condition.Read(o.Unstructured).Remove(typeSynced)
	var parts []string
	for _, one := range all {
		one.ObservedGeneration = cmp.Or(one.ObservedGeneration, o.GetGeneration())
		after = after.Mark(one, c.Now())
		if one.Type != v1.TypeRuntimeActive { // a program that has nothing to do is as good
			parts = append(parts, one.Type)
		}
	}
	ready := after.Summarize(typeReady, o.GetGeneration(), parts...)
	after = after.Mark(ready, c.Now()).MarkProgress(condition.ProgressOf(ready, !waits), o.GetGeneration(), c.Now())
	status["conditions"], status["observedGeneration"] = after.Unstructured(), o.GetGeneration()
	return c.writer().WriteStatus(ctx, o, status)
}

// statusOf is never nil.
func statusOf(o map[string]any) map[string]any {
	if status, ok := o["status"].(map[string]any); ok {
		return status
	}
	return map[string]any{}
}

// set sets a field, or removes it if it is empty.
func set(m map[string]any, key string, value any) {
	switch v := value.(type) {
	case string:
		if v == "" {
			delete(m, key)
			return
		}
	case []any:
		if len(v) == 0 {
			delete(m, key)
			return
		}
	case int:
		if v == 0 {
			delete(m, key)
			return
		}
		value = int64(v)
	}
	m[key] = value
}

func refs(all []v1.ImageConfigRef) (out []any) {
	for _, r := range all {
		out = append(out, map[string]any{"name": r.Name, "reason": r.Reason})
	}
	return out
}

func stringAt(o map[string]any, path ...string) string {
	text, _, _ := unstructured.NestedString(o, path...)
	return text
}

// crossplaneInterval is how often it is looked whether Crossplane runs.
const crossplaneInterval = 30 * time.Second
