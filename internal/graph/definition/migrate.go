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

// settle is for how long instances are let be after the stored version has changed: of
// several API servers one may know of that a little later, and store the former version
// still.
const settle = 5 * time.Second

// tryAgain is when conversions are tried again that have failed for instances.
const tryAgain = 30 * time.Second

// batch is how many instances one pass rewrites, so that other definitions get their turn.
const batch = 200

// migration rewrites the instances of a kind in the version that is stored now. It is
// begun anew after a restart.
type migration struct {
	kind  types.UID // of the CustomResourceDefinition
	hub   string
	since time.Time
	begun bool
	todo  []*unstructured.Unstructured
}

// migrate rewrites instances that may be stored in a former version, and then tells the
// API server that none are, so that the version may go.
func (r *Dialect) migrate(ctx context.Context, v *session, out reconcile.Result) reconcile.Result {
	if out.Err == nil && v.readiness.Reason == serving.Reason(kind.ConversionFails) {
		return reconcile.RequeueAfter(tryAgain) // that an instance has been repaired is no event of the definition's
	}
	current, exists := r.Kinds.CRD(v.source.kind)
	if !exists || !crd.BelongsTo(current, v.owner) || current.DeletionTimestamp != nil || !crd.Established(current) || len(crd.Outdated(current)) == 0 {
		v.memory.migration = nil
		return out
	}
	if out.Err != nil || !v.readiness.Ready && v.readiness.Reason != serving.Reason(kind.VersionStillStored) {
		return out
	}
	m := v.memory.migration
	if hub := crd.Hub(current); m == nil || m.kind != current.UID || m.hub != hub {
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
		r.Wake(v.Key) // what it waited for may go
	}
	return out
}

// rewrite rewrites some of the instances: a change of nothing has the API server store
// an object anew if it is stored in another version.
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
		_, err := as.Mark(ctx, m.todo[0], map[string]any{"metadata": map[string]any{}}, v1alpha1.InstanceManager)
		if err != nil && !kube.IsGone(err) {
			return err
		}
		m.todo = m.todo[1:]
	}
	return nil
}

// rewritten tells the API server that all instances are stored in one version.
func (r *Dialect) rewritten(ctx context.Context, m *migration, name string) error {
	o, err := r.Cluster.Get(ctx, crd.Kind, "", name)
	if err != nil {
		return err
	}
	current, err := crd.Decode(o)
	if err != nil {
		return err
	}
	if current.UID != m.kind || crd.Hub(current) != m.hub {
		return nil // the next pass sees what has become of it
	}
	status, _ := o.Object["status"].(map[string]any)
	if status == nil {
		return nil
	}
	status["storedVersions"] = []any{m.hub}
	answer, err := r.Cluster.WriteStatus(ctx, o, status, v1alpha1.InstanceManager)
	if kube.IsGone(err) {
		return nil // it has changed: its event brings the next pass
	}
	if err != nil {
		return err
	}
	if current, err = crd.Decode(answer); err == nil {
		r.Published(current)
	}
	return err
}
