package definition

import (
	"context"
	"fmt"
	"time"

	"github.com/espalier-dev/espalier/internal/serving"

	"github.com/espalier-dev/espalier/internal/graph/kind"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/reconcile"
)

// settle delays the migration after the storage version has changed: one of several API
// servers may learn of the change later and still store the former version.
const settle = 5 * time.Second

// tryAgain is the delay before failed conversions of instances are retried.
const tryAgain = 30 * time.Second

// batch bounds the instances that one reconcile rewrites, so that other definitions do not
// wait.
const batch = 200

// migration rewrites the instances of a kind in the current storage version. It starts over
// after a restart.
type migration struct {
	kind  types.UID // of the CustomResourceDefinition
	hub   string
	since time.Time
	begun bool
	todo  []*unstructured.Unstructured
}

// migrate rewrites instances that may be stored in a former version, and then updates
// status.storedVersions, so that the version can be removed.
func (r *Dialect) migrate(ctx context.Context, v *session, out reconcile.Result) reconcile.Result {
	if out.Err == nil && v.readiness.Reason == serving.Reason(kind.ConversionFails) {
		return reconcile.RequeueAfter(tryAgain) // a repaired instance does not wake the definition
	}
	current, exists := r.Kinds.CRD(v.source.kind)
	if !exists || !crd.BelongsTo(current, v.owner) || current.DeletionTimestamp != nil || !crd.IsEstablished(current) || len(crd.OutdatedStoredVersions(current)) == 0 {
		v.memory.migration = nil
		return out
	}
	if out.Err != nil || !v.readiness.Ready && v.readiness.Reason != serving.Reason(kind.VersionStillStored) {
		return out
	}
	m := v.memory.migration
	if hub := crd.StorageVersion(current); m == nil || m.kind != current.UID || m.hub != hub {
		m = &migration{kind: current.UID, hub: hub, since: r.Now()}
		v.memory.migration = m
	}
	if wait := m.since.Add(settle).Sub(r.Now()); wait > 0 {
		return reconcile.RequeueAfter(wait)
	}
	if v.account.Cluster == nil {
		return out // its conditions say why
	}
	if err := rewrite(ctx, v.account.Cluster, m, current); err != nil {
		return reconcile.Fail(fmt.Errorf("rewrite instances of %s in version %s: %w", v.source.kind.Kind, m.hub, kube.Redacted(err)))
	}
	if len(m.todo) > 0 {
		r.Wake(v.Key)
		return out
	}
	if err := r.rewritten(ctx, m, current.Name); err != nil {
		return reconcile.Fail(fmt.Errorf("note that all instances of %s are stored in version %s: %w", v.source.kind.Kind, m.hub, err))
	}
	v.memory.migration = nil
	if !v.readiness.Ready {
		r.Wake(v.Key) // former versions may be removed now
	}
	return out
}

// rewrite rewrites some of the instances: an empty change makes the API server store an
// object again if it is stored in another version.
func rewrite(ctx context.Context, as *kube.Client, m *migration, current *apiextensionsv1.CustomResourceDefinition) error {
	if !m.begun {
		kind := crd.GroupKind(current).WithVersion(m.hub)
		instances, err := as.List(ctx, kind, "")
		if err != nil {
			return err
		}
		for i := range instances {
			o := &unstructured.Unstructured{}
			o.SetGroupVersionKind(kind)
			o.SetNamespace(instances[i].GetNamespace())
			o.SetName(instances[i].GetName())
			o.SetUID(instances[i].GetUID())
			m.todo = append(m.todo, o)
		}
		m.begun = true
	}
	for range min(batch, len(m.todo)) {
		_, err := as.PatchMetadata(ctx, m.todo[0], map[string]any{"metadata": map[string]any{}}, v1alpha1.InstanceManager)
		if err != nil && !kube.IsStale(err) {
			return err
		}
		m.todo = m.todo[1:]
	}
	return nil
}

// rewritten sets status.storedVersions to the current storage version.
func (r *Dialect) rewritten(ctx context.Context, m *migration, name string) error {
	o, err := r.Cluster.Get(ctx, crd.Kind, "", name)
	if err != nil {
		return err
	}
	current, err := crd.Decode(o)
	if err != nil {
		return err
	}
	if current.UID != m.kind || crd.StorageVersion(current) != m.hub {
		return nil // the next reconcile reads its new state
	}
	status, _ := o.Object["status"].(map[string]any)
	if status == nil {
		return nil
	}
	status["storedVersions"] = []any{m.hub}
	answer, err := r.Cluster.WriteStatus(ctx, o, status, v1alpha1.InstanceManager)
	if kube.IsStale(err) {
		return nil // it has changed: its event triggers the next reconcile
	}
	if err != nil {
		return err
	}
	if current, err = crd.Decode(answer); err == nil {
		r.Published(current)
	}
	return err
}
