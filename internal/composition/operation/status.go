package operation

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube/writer"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// otherEngineInterval is how often it is looked whether Crossplane runs.
const otherEngineInterval = 30 * time.Second

// suspended reports whether an object is left alone: a user has paused it, or Crossplane runs beside this program. More are conditions of
// a paused object beside Synced.
func (c Config) suspended(ctx context.Context, o *writer.Object, status any, more ...v1alpha1.Condition) (out reconcile.Result, waits bool) {
	if o.GetAnnotations()[PausedAnnotation] == "true" {
		paused := mark(opsv1alpha1.TypeSynced, condition.False, opsv1alpha1.ReasonReconcilePaused, "the annotation "+PausedAnnotation+" is true")
		return c.writeStatus(ctx, o, status, append(more, paused)...).OrDone(), true
	}
	if c.OtherEngine != nil && c.OtherEngine(ctx) {
		return reconcile.RequeueAfter(otherEngineInterval), true
	}
	return out, false
}

// writeStatus writes a status with conditions, if it has changed.
func (c Config) writeStatus(ctx context.Context, o *writer.Object, status any, all ...v1alpha1.Condition) reconcile.Result {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(status)
	if err != nil {
		return reconcile.Fail(fmt.Errorf("encode the status: %w", err))
	}
	set := condition.Read(o.Unstructured)
	for _, one := range all {
		one.ObservedGeneration = o.GetGeneration()
		set = set.Mark(one, c.Now())
	}
	content["conditions"] = set.Unstructured()
	_, out := c.writer().WriteStatus(ctx, o, content)
	return out
}

func mark(kind string, status metav1.ConditionStatus, reason, message string) v1alpha1.Condition {
	return v1alpha1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// synced is the condition Synced: a message is an error.
func synced(problem string) v1alpha1.Condition {
	if problem != "" {
		return mark(opsv1alpha1.TypeSynced, condition.False, opsv1alpha1.ReasonReconcileError, problem)
	}
	return mark(opsv1alpha1.TypeSynced, condition.True, opsv1alpha1.ReasonReconcileSuccess, "")
}
