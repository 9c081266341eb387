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
	"github.com/espalier-dev/espalier/internal/object"
)

// reservationLabel marks the second Binding of a managed resource, which keeps an
// assigned identity from being bound twice.
const reservationLabel = "espalier.dev/reservation"

func isReservation(b *unstructured.Unstructured) bool {
	return b.GetLabels()[reservationLabel] == "true"
}

// ownerID is the label's value by which the bindings of a managed resource are
// found: it derives from names alone.
func ownerID(o *unstructured.Unstructured) string { return inventory.ApplySetID(object.KeyOf(o)) }

func specOf(o *unstructured.Unstructured) (*binding.BindingSpec, error) {
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

// reserve makes a binding. If its place is taken it returns who has it, and watches
// that.
func (r *Reconciler) reserve(ctx context.Context, s *reconcileState, name string, spec *binding.BindingSpec, labels map[string]string) (made *unstructured.Unstructured, taken *binding.BindingSpec, err error) {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(Kind)
	o.SetName(name)
	all := map[string]string{v1alpha1.ApplySetPartOfLabel: ownerID(s.object)}
	for key, value := range labels {
		all[key] = value
	}
	o.SetLabels(all)
	if err := setSpec(o, spec); err != nil {
		return nil, nil, err
	}
	made, err = r.write(s, o, func() (*unstructured.Unstructured, error) { return r.Bindings.Create(ctx, o, Manager) })
	if !kube.IsNameTaken(err) {
		return made, nil, err
	}
	s.lease.Want(watch.Object(Kind, "", name))
	live, err := r.Bindings.Get(ctx, Kind, "", name)
	if err != nil {
		return nil, nil, err
	}
	taken, err = specOf(live)
	if err == nil && taken.Owner.UID == s.object.GetUID() {
		return live, nil, nil // it is this one's, and the cache hadn't heard of it
	}
	return nil, taken, err
}

// record stores a binding, if nobody has changed it since it was read.
func (r *Reconciler) record(ctx context.Context, s *reconcileState, spec *binding.BindingSpec) error {
	next := s.binding.DeepCopy()
	if err := setSpec(next, spec); err != nil {
		return err
	}
	stored, err := r.write(s, next, func() (*unstructured.Unstructured, error) { return r.Bindings.Replace(ctx, next, Manager) })
	if err != nil {
		return err
	}
	s.binding = stored
	return nil
}

// forget deletes the binding, and what keeps the identity with it.
func (r *Reconciler) forget(ctx context.Context, s *reconcileState) error {
	own, _ := s.lease.Children(Kind, ownerID(s.object))
	for _, b := range own {
		if spec, err := specOf(b); err != nil || spec.Owner.UID != s.object.GetUID() {
			continue
		}
		if err := r.Bindings.Delete(ctx, b); err != nil {
			return fmt.Errorf("delete Binding %s: %w", b.GetName(), err)
		}
	}
	s.binding = nil
	return nil
}

// write makes one write; its answer is in the caches when it returns.
func (r *Reconciler) write(s *reconcileState, o *unstructured.Unstructured, do func() (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	return r.Cache.Write(o, watch.Subscriber{Key: s.key}, do)
}
