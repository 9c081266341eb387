package definition

import (
	"context"
	"time"

	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/serving"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

const conversionRetryInterval = 30 * time.Second

// migrate rewrites instances that may be stored in a former version, and then updates status.storedVersions, so the
// version can be removed.
func (v *session) migrate(ctx context.Context, out reconcile.Result) reconcile.Result {
	if out.Err == nil && v.readiness.Reason == serving.Reason(kind.ConversionFails) {
		return reconcile.RequeueAfter(conversionRetryInterval) // a repaired instance does not enqueue the definition
	}
	current, exists := v.Kinds.CRD(v.source.kind)
	if !exists || !crd.BelongsTo(current, v.owner) || !serving.NeedsMigration(current) {
		v.memory.migration = nil
		return out
	}
	if out.Err != nil || !v.readiness.Ready && v.readiness.Reason != serving.Reason(kind.VersionStillStored) {
		return out
	}
	account := v.fallbackAccount()
	if account.Cluster == nil {
		return out // its conditions say why
	}
	next, step := v.Migrate(ctx, v.Definition, v.memory.migration, current, account.Cluster)
	v.memory.migration = next
	if step.IsFinal() {
		return step
	}
	if next == nil && !v.readiness.Ready {
		v.EnqueueDefinition(v.Key) // former versions may be removed now
	}
	return out
}
