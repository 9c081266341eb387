package activation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/managed/activation/plan"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// maxWrites limits the writes of CustomResourceDefinitions in one reconcile, which has a timeout.
const maxWrites = 20

// It reports whether steps are left. Steps that have failed before come last, so they do not keep the rest from being
// carried out.
func (r *Reconciler) install(ctx context.Context, s *reconcileState) (more bool, err error) {
	steps := slices.Clone(s.plan.Steps)
	slices.SortStableFunc(steps, func(a, b plan.Step) int { return len(r.failures[a.Key]) - len(r.failures[b.Key]) })
	failures := map[plan.Key]string{}
	var failed []error
	for i, step := range steps {
		if i >= maxWrites {
			if text := r.failures[step.Key]; text != "" {
				failures[step.Key] = text
			}
			continue
		}
		if err := r.execute(ctx, step); err != nil {
			failures[step.Key] = err.Error()
			failed = append(failed, err)
		}
	}
	r.failures = failures
	return len(steps) > maxWrites && len(failed) == 0, errors.Join(failed...)
}

// That another client was first is no error: an event follows.
func (r *Reconciler) execute(ctx context.Context, step plan.Step) error {
	var err error
	switch step.Action {
	case plan.Install:
		err = r.create(ctx, step)
	case plan.Update:
		err = r.update(ctx, step)
	case plan.Remove:
		err = r.remove(ctx, step)
	}
	if err == nil || kube.IsStale(err) {
		return nil
	}
	verb := map[plan.Action]string{plan.Install: "install", plan.Update: "update", plan.Remove: "delete"}[step.Action]
	return fmt.Errorf("%s CustomResourceDefinition %s: %w", verb, step.CRD, err)
}

// One of the name that another process of this program has created meanwhile is as good.
func (r *Reconciler) create(ctx context.Context, step plan.Step) error {
	wanted, err := r.Catalog.configuration(step.Key, step.Activation)
	if err != nil {
		return err
	}
	answer, err := r.Cluster.Create(ctx, wanted, v1alpha1.InstanceManager)
	if live := kube.ExistingObject(err); live != nil {
		if live.GetLabels()[resource.CatalogLabel] != r.Provider {
			return errors.New("it exists, and another program has installed it; delete it if nothing uses it")
		}
		answer, err = live, nil
	}
	if err != nil {
		return err
	}
	return r.written(answer)
}

func (r *Reconciler) update(ctx context.Context, step plan.Step) error {
	wanted, err := r.Catalog.configuration(step.Key, step.Activation)
	if err != nil {
		return err
	}
	current, exists := r.find(step.CRD)
	if !exists {
		return nil
	}
	answer, err := r.Cluster.Update(ctx, wanted, current.UID, v1alpha1.InstanceManager)
	if err != nil {
		return err
	}
	return r.written(answer)
}

func (r *Reconciler) written(answer *unstructured.Unstructured) error {
	c, err := crd.Decode(answer)
	if err == nil {
		r.Written(c)
	}
	return err
}

// remove deletes a CustomResourceDefinition, unless the API server has an object of the kind. The cache has none; if
// one is created at the same time, the API server deletes it. The controller of the kind runs until the
// CustomResourceDefinition is gone, so it can delete that object's external resource.
func (r *Reconciler) remove(ctx context.Context, step plan.Step) error {
	current, exists := r.find(step.CRD)
	if !exists {
		return nil
	}
	if crd.IsEstablished(current) {
		kind := crd.GroupKind(current).WithVersion(crd.StorageVersion(current))
		left, err := r.Cluster.List(ctx, kind, "")
		if err != nil && !kube.IsNoKindMatch(err) {
			return err
		}
		if len(left) > 0 {
			return nil // the event of its creation brings the next reconcile
		}
	}
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(crd.Kind)
	o.SetName(current.Name)
	o.SetUID(current.UID)
	o.SetResourceVersion(current.ResourceVersion)
	return r.Cluster.DeleteIfUnchanged(ctx, o)
}
