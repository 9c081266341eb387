package managed

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/carry"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// store keeps what has to survive on the API server.
type store struct {
	*Reconciler
	*reconcileState
}

// Claim puts our finalizer on the managed resource, or takes it off.
func (s store) Claim(ctx context.Context, claimed bool) error {
	finalizers := slices.DeleteFunc(slices.Clone(s.object.GetFinalizers()), func(f string) bool { return f == resource.Finalizer })
	if claimed {
		finalizers = append(finalizers, resource.Finalizer)
	}
	return s.setFinalizers(ctx, s.reconcileState, finalizers)
}

// Reserve makes the binding.
func (s store) Reserve(ctx context.Context, spec *binding.BindingSpec) (taken *binding.BindingSpec, err error) {
	s.binding, taken, err = s.reserve(ctx, s.reconcileState, carry.BindingName(spec), spec, nil)
	return taken, err
}

// Record replaces the binding.
func (s store) Record(ctx context.Context, spec *binding.BindingSpec) error {
	return s.record(ctx, s.reconcileState, spec)
}

// Forget deletes the binding.
func (s store) Forget(ctx context.Context) error { return s.forget(ctx, s.reconcileState) }

// ReserveID takes an assigned identity for this managed resource alone.
func (s store) ReserveID(ctx context.Context, of *binding.BindingSpec, ref external.Ref) (taken *binding.BindingSpec, err error) {
	name, spec := carry.Reservation(of, ref)
	_, taken, err = s.reserve(ctx, s.reconcileState, name, spec, map[string]string{reservationLabel: "true"})
	return taken, err
}

// Project writes the identity into the annotation.
func (s store) Project(ctx context.Context, ref external.Ref) error {
	return s.annotate(ctx, s.reconcileState, resource.ExternalNameAnnotation, string(ref))
}

// LateInitialize sets fields of spec.forProvider that nobody has set.
func (s store) LateInitialize(ctx context.Context, chosen map[string]any) error {
	if missing := carry.LateInit(s.object, chosen); len(missing) > 0 {
		return s.patch(ctx, s.reconcileState, map[string]any{"spec": map[string]any{"forProvider": missing}})
	}
	return nil
}

// Publish writes the connection secret.
func (s store) Publish(ctx context.Context, connection map[string][]byte) error {
	return s.publish(ctx, s.reconcileState, connection)
}

func (r *Reconciler) setFinalizers(ctx context.Context, s *reconcileState, finalizers []string) error {
	answer, err := r.write(s, s.object, func() (*unstructured.Unstructured, error) {
		return r.Resources.SetFinalizers(ctx, s.object, finalizers, Manager)
	})
	if err != nil {
		return err
	}
	s.object = answer
	return nil
}

// annotate writes an annotation of the managed resource.
func (r *Reconciler) annotate(ctx context.Context, s *reconcileState, key, value string) error {
	return r.patch(ctx, s, map[string]any{"metadata": map[string]any{"annotations": map[string]any{key: value}}})
}

// patch changes the managed resource as it was read.
func (r *Reconciler) patch(ctx context.Context, s *reconcileState, change map[string]any) error {
	answer, err := r.write(s, s.object, func() (*unstructured.Unstructured, error) {
		return r.Resources.Patch(ctx, s.object, change, Manager)
	})
	if err != nil {
		return err
	}
	s.object = answer
	return nil
}
