package conformance

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// store implements execute.Store in memory, with the scenario's object and cluster.
type store struct{ *scenario }

// SetFinalizer adds or removes the finalizer.
func (s store) SetFinalizer(_ context.Context, present bool) error {
	if present {
		s.object.SetFinalizers([]string{resource.Finalizer})
		return nil
	}
	s.object.SetFinalizers(nil)
	s.deleteIfFinalized()
	return nil
}

// CreateBinding creates the binding, or returns the existing one of another object.
func (s store) CreateBinding(_ context.Context, spec *binding.BindingSpec) (*binding.BindingSpec, error) {
	return s.createBinding(execute.BindingName(spec), spec, false), nil
}

func (s store) createBinding(name string, spec *binding.BindingSpec, isReservation bool) (existing *binding.BindingSpec) {
	if b, ok := s.cluster.bindings[name]; ok {
		if b.spec.Owner.UID == s.object.GetUID() {
			return nil
		}
		return b.spec.DeepCopy()
	}
	s.cluster.bindings[name] = storedBinding{spec.DeepCopy(), isReservation}
	return nil
}

// UpdateBinding replaces the binding.
func (s store) UpdateBinding(_ context.Context, spec *binding.BindingSpec) error {
	name, b := s.findBinding()
	if was := b.spec.Ref; was != "" && spec.Ref != was && spec.Ref != "" {
		s.fail(KeepsExternalName, "the identity has changed from %q to %q", was, spec.Ref)
	}
	b.spec = spec.DeepCopy()
	s.cluster.bindings[name] = b
	return nil
}

// DeleteBinding deletes the binding and the reservation.
func (s store) DeleteBinding(context.Context) error {
	for name, b := range s.cluster.bindings {
		if b.spec.Owner.UID == s.object.GetUID() {
			delete(s.cluster.bindings, name)
		}
	}
	return nil
}

// ReserveIdentity reserves an assigned identity.
func (s store) ReserveIdentity(_ context.Context, of *binding.BindingSpec, ref external.Ref) (*binding.BindingSpec, error) {
	name, spec := execute.Reservation(of, ref)
	return s.createBinding(name, spec, true), nil
}

// SetExternalName sets the annotation.
func (s store) SetExternalName(_ context.Context, ref external.Ref) error {
	s.annotate(resource.ExternalNameAnnotation, string(ref))
	return nil
}

// LateInitialize sets the fields of spec.forProvider that are unset.
func (s store) LateInitialize(_ context.Context, values map[string]any) error {
	wanted, _, _ := unstructured.NestedMap(s.object.Object, "spec", "forProvider")
	missing := execute.UnsetFields(s.object, values)
	if len(missing) == 0 {
		return nil
	}
	s.object.SetGeneration(s.object.GetGeneration() + 1)
	return unstructured.SetNestedMap(s.object.Object, merge(wanted, missing), "spec", "forProvider")
}

// merge returns the fields of both maps.
func merge(base, added map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range base {
		out[key] = value
	}
	for key, value := range added {
		addedMap, isMap := value.(map[string]any)
		baseMap, wasMap := out[key].(map[string]any)
		if isMap && wasMap {
			value = merge(baseMap, addedMap)
		}
		out[key] = value
	}
	return out
}

// PublishConnection does nothing: the client has no part in publishing connection details.
func (s store) PublishConnection(context.Context, map[string][]byte) error { return nil }

// findBinding returns the binding of the scenario's object; its spec is nil if there is none.
func (s *scenario) findBinding() (name string, b storedBinding) {
	for name, b := range s.cluster.bindings {
		if b.spec.Owner.UID == s.object.GetUID() && !b.isReservation {
			return name, b
		}
	}
	return "", storedBinding{}
}

func (s *scenario) annotate(key, value string) {
	all := s.object.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	s.object.SetAnnotations(all)
}
