package conformance

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/execute"
	"github.com/espalier-dev/espalier/sdk/managed/external"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// store keeps a life's object and binding in its world: see execute.Store.
type store struct{ *life }

// SetFinalizer puts the finalizer on, or takes it off.
func (s store) SetFinalizer(_ context.Context, claimed bool) error {
	if claimed {
		s.object.SetFinalizers([]string{resource.Finalizer})
		return nil
	}
	s.object.SetFinalizers(nil)
	s.mayGo()
	return nil
}

// CreateBinding makes the binding.
func (s store) CreateBinding(_ context.Context, spec *binding.BindingSpec) (*binding.BindingSpec, error) {
	return s.take(execute.BindingName(spec), spec, false), nil
}

func (s store) take(name string, spec *binding.BindingSpec, reservation bool) (taken *binding.BindingSpec) {
	if there, ok := s.world.bindings[name]; ok {
		if there.spec.Owner.UID == s.object.GetUID() {
			return nil
		}
		return there.spec.DeepCopy()
	}
	s.world.bindings[name] = kept{spec.DeepCopy(), reservation}
	return nil
}

// UpdateBinding replaces the binding.
func (s store) UpdateBinding(_ context.Context, spec *binding.BindingSpec) error {
	name, b := s.own()
	if was := b.spec.Ref; was != "" && spec.Ref != was && spec.Ref != "" {
		s.fails(KeepsItsName, "the identity became %q from %q", spec.Ref, was)
	}
	b.spec = spec.DeepCopy()
	s.world.bindings[name] = b
	return nil
}

// DeleteBinding deletes the binding, with what it has reserved.
func (s store) DeleteBinding(context.Context) error {
	for name, b := range s.world.bindings {
		if b.spec.Owner.UID == s.object.GetUID() {
			delete(s.world.bindings, name)
		}
	}
	return nil
}

// ReserveIdentity takes an assigned identity.
func (s store) ReserveIdentity(_ context.Context, of *binding.BindingSpec, ref external.Ref) (*binding.BindingSpec, error) {
	name, spec := execute.Reservation(of, ref)
	return s.take(name, spec, true), nil
}

// SetExternalName writes the annotation.
func (s store) SetExternalName(_ context.Context, ref external.Ref) error {
	s.annotate(resource.ExternalNameAnnotation, string(ref))
	return nil
}

// LateInitialize sets what nobody has set.
func (s store) LateInitialize(_ context.Context, chosen map[string]any) error {
	wanted, _, _ := unstructured.NestedMap(s.object.Object, "spec", "forProvider")
	missing := execute.UnsetFields(s.object, chosen)
	if len(missing) == 0 {
		return nil
	}
	s.object.SetGeneration(s.object.GetGeneration() + 1)
	return unstructured.SetNestedMap(s.object.Object, merged(wanted, missing), "spec", "forProvider")
}

// merged is what is there with what was missing.
func merged(there, missing map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range there {
		out[key] = value
	}
	for key, value := range missing {
		below, isMap := value.(map[string]any)
		within, wasMap := out[key].(map[string]any)
		if isMap && wasMap {
			value = merged(within, below)
		}
		out[key] = value
	}
	return out
}

// PublishConnection does nothing: secrets are the runtime's affair.
func (s store) PublishConnection(context.Context, map[string][]byte) error { return nil }

// own is the life's binding; without a spec if there is none.
func (l *life) own() (name string, b kept) {
	for name, b := range l.world.bindings {
		if b.spec.Owner.UID == l.object.GetUID() && !b.reservation {
			return name, b
		}
	}
	return "", kept{}
}

func (l *life) annotate(key, value string) {
	all := l.object.GetAnnotations()
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	l.object.SetAnnotations(all)
}
