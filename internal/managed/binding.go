package managed

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/internal/object"
)

// reservationLabel is on the second Binding of a managed resource, which keeps an assigned
// identity from being bound twice.
const reservationLabel = "espalier.dev/reservation"

func isReservation(b *unstructured.Unstructured) bool {
	return b.GetLabels()[reservationLabel] == "true"
}

// It is the label value that the bindings of a managed resource are found by. It derives from group, kind, namespace
// and name only.
func ownerID(o *unstructured.Unstructured) string { return inventory.ApplySetID(object.KeyOf(o)) }

func readSpec(o *unstructured.Unstructured) (*binding.BindingSpec, error) {
	raw, _, _ := unstructured.NestedMap(o.Object, "spec")
	var spec binding.BindingSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw, &spec); err != nil {
		return nil, fmt.Errorf("read Binding %s: %w", o.GetName(), err)
	}
	return &spec, nil
}

func setSpec(o *unstructured.Unstructured, spec *binding.BindingSpec) error {
	raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	if err != nil {
		return fmt.Errorf("encode Binding %s: %w", o.GetName(), err)
	}
	return unstructured.SetNestedMap(o.Object, raw, "spec")
}

// If another binding has the name, it returns that one and watches it.
func (r *Reconciler) createBinding(ctx context.Context, s *reconcileState, name string, spec *binding.BindingSpec,
	labels map[string]string) (created *unstructured.Unstructured, reservedBy *binding.BindingSpec, err error) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(BindingKind)
	o.SetName(name)
	all := map[string]string{v1alpha1.ApplySetPartOfLabel: ownerID(s.object)}
	for key, value := range labels {
		all[key] = value
	}
	o.SetLabels(all)
	if err := setSpec(o, spec); err != nil {
		return nil, nil, err
	}
	created, err = r.write(s, func() (*unstructured.Unstructured, error) { return r.Bindings.Create(ctx, o, FieldManager) })
	if !kube.IsNameTaken(err) {
		return created, nil, err
	}
	s.lease.Watch(watch.Object(BindingKind, "", name))
	live, err := r.Bindings.Get(ctx, BindingKind, "", name)
	if err != nil {
		return nil, nil, err
	}
	reservedBy, err = readSpec(live)
	if err == nil && reservedBy.Owner.UID == s.object.GetUID() {
		return live, nil, nil // it belongs to this managed resource; the cache did not have it yet
	}
	return nil, reservedBy, err
}

// It is nil if there is none, or it is another's. The cache may lack one that a former leader has created, with an
// external resource that nothing else records.
func (r *Reconciler) findBinding(ctx context.Context, s *reconcileState) (*unstructured.Unstructured, error) {
	key := s.state.DesiredKey
	name := execute.BindingName(&binding.BindingSpec{
		Key:   binding.BindingKey{Scope: key.Scope, Type: key.Type, Name: key.Name},
		Owner: s.state.Resource.Owner, Shared: !s.state.Resource.Policies.Exclusive(),
	})
	live, err := r.Bindings.Get(ctx, BindingKind, "", name)
	if kube.IsObjectNotFound(err, name) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Binding %s: %w", name, err)
	}
	if spec, err := readSpec(live); err != nil || spec.Owner.UID != s.object.GetUID() {
		return nil, err
	}
	return live, nil
}

// It fails if the binding was changed after it was read.
func (r *Reconciler) updateBinding(ctx context.Context, s *reconcileState, spec *binding.BindingSpec) error {
	next := s.binding.DeepCopy()
	if err := setSpec(next, spec); err != nil {
		return err
	}
	stored, err := r.write(s, func() (*unstructured.Unstructured, error) { return r.Bindings.Replace(ctx, next, FieldManager) })
	if err != nil {
		return err
	}
	s.binding = stored
	return nil
}

// The binding that reserves its identity is deleted, too.
func (r *Reconciler) deleteBindings(ctx context.Context, s *reconcileState) error {
	bindings, _ := s.lease.Children(BindingKind, ownerID(s.object))
	for _, b := range bindings {
		if spec, err := readSpec(b); err != nil || spec.Owner.UID != s.object.GetUID() {
			continue
		}
		if err := r.Bindings.Delete(ctx, b); err != nil {
			return fmt.Errorf("delete Binding %s: %w", b.GetName(), err)
		}
	}
	s.binding = nil
	return nil
}

// Its answer is in the caches when write returns.
func (r *Reconciler) write(s *reconcileState, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	return r.Cache.Write(watch.Subscriber{Key: s.key}, do)
}
