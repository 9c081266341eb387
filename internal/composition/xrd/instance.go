package xrd

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Instance is a composite or a claim with its layout. A field that is missing or invalid is
// read as the zero value.
type Instance struct {
	object *unstructured.Unstructured
	layout Layout
}

// NewInstance wraps an object. The setters change the object: pass a copy of one from a
// cache.
func NewInstance(o *unstructured.Unstructured, p Layout) Instance {
	return Instance{object: o, layout: p}
}

// Object is the composite or claim itself.
func (i Instance) Object() *unstructured.Unstructured { return i.object }

// Layout is the layout of the instance's kind.
func (i Instance) Layout() Layout { return i.layout }

// CompositionName is the name of the composition that the instance references, or "".
func (i Instance) CompositionName() string { return i.stringAt(i.layout.CompositionRef, "name") }

// CompositionSelector are the labels that the instance selects compositions by; selects is
// false if it has no selector.
func (i Instance) CompositionSelector() (labels map[string]string, selects bool) {
	return i.labelsAt(i.layout.CompositionSelector)
}

// RevisionName is the name of the composition's revision that the instance references, or "".
func (i Instance) RevisionName() string { return i.stringAt(i.layout.CompositionRevisionRef, "name") }

// RevisionSelector are the labels that the instance selects revisions by; selects is false
// if it has no selector.
func (i Instance) RevisionSelector() (labels map[string]string, selects bool) {
	return i.labelsAt(i.layout.CompositionRevisionSelector)
}

// UpdatePolicy is the instance's compositionUpdatePolicy: Automatic unless it is Manual.
func (i Instance) UpdatePolicy() v1.UpdatePolicy {
	if v1.UpdatePolicy(i.stringAt(i.layout.CompositionUpdatePolicy)) == v1.UpdateManual {
		return v1.UpdateManual
	}
	return v1.UpdateAutomatic
}

// DeletePolicy is a claim's compositeDeletePolicy: Background unless it is Foreground.
func (i Instance) DeletePolicy() v1.DeletePolicy {
	if v1.DeletePolicy(i.stringAt(i.layout.DeletePolicy)) == v1.DeleteForeground {
		return v1.DeleteForeground
	}
	return v1.DeleteBackground
}

// ResourceRefs are the composite's references to its composed objects.
func (i Instance) ResourceRefs() []ComposedRef {
	items, _ := i.fieldAt(i.layout.ResourceRefs).([]any)
	var out []ComposedRef
	for _, item := range items {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		out = append(out, ComposedRef{
			APIVersion: stringOf(m["apiVersion"]), Kind: stringOf(m["kind"]), Namespace: stringOf(m["namespace"]),
			Name: stringOf(m["name"]), ResourceName: stringOf(m["resourceName"]), DependsOn: stringsOf(m["dependsOn"]),
		})
	}
	return out
}

// ClaimRef is a composite's reference to its claim.
func (i Instance) ClaimRef() (ref ObjectRef, claimed bool) { return i.refAt(i.layout.ClaimRef) }

// CompositeRef is a claim's reference to its composite.
func (i Instance) CompositeRef() (ref ObjectRef, bound bool) { return i.refAt(i.layout.ResourceRef) }

// ConnectionSecretRef is the instance's writeConnectionSecretToRef; wanted is false if it
// has none.
func (i Instance) ConnectionSecretRef() (ref SecretRef, wanted bool) {
	p := i.layout.ConnectionSecretRef
	ref = SecretRef{Namespace: i.stringAt(p, "namespace"), Name: i.stringAt(p, "name")}
	return ref, ref.Name != ""
}

// LastPublished is the instance's lastPublishedTime of connection details, in RFC 3339, or "".
func (i Instance) LastPublished() string { return i.stringAt(i.layout.LastPublishedTime) }

// Conditions are the instance's conditions, in their order.
func (i Instance) Conditions() []v1alpha1.Condition {
	items, _ := i.fieldAt(i.layout.Conditions).([]any)
	var out []v1alpha1.Condition
	for _, item := range items {
		var c v1alpha1.Condition
		if m, ok := item.(map[string]any); ok && runtime.DefaultUnstructuredConverter.FromUnstructured(m, &c) == nil {
			out = append(out, c)
		}
	}
	return out
}

// ClaimConditionTypes are the types of the composite's conditions that its claim shows as
// well, sorted.
func (i Instance) ClaimConditionTypes() []string {
	out := stringsOf(i.fieldAt(i.layout.ClaimConditionTypes))
	slices.Sort(out)
	return out
}

// fieldAt returns nil for an absent field.
func (i Instance) fieldAt(p FieldPath, more ...string) any {
	if len(p) == 0 {
		return nil
	}
	var at any = i.object.Object
	for _, name := range slices.Concat(p, more) {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[name]
	}
	return at
}

func (i Instance) stringAt(p FieldPath, more ...string) string {
	return stringOf(i.fieldAt(p, more...))
}

func (i Instance) refAt(p FieldPath) (ObjectRef, bool) {
	m, ok := i.fieldAt(p).(map[string]any)
	if !ok {
		return ObjectRef{}, false
	}
	ref := ObjectRef{APIVersion: stringOf(m["apiVersion"]), Kind: stringOf(m["kind"]), Namespace: stringOf(m["namespace"]), Name: stringOf(m["name"])}
	return ref, ref.Name != ""
}

func (i Instance) labelsAt(p FieldPath) (map[string]string, bool) {
	if _, ok := i.fieldAt(p).(map[string]any); !ok {
		return nil, false
	}
	out := map[string]string{}
	m, _ := i.fieldAt(p, "matchLabels").(map[string]any)
	for name, value := range m {
		out[name] = stringOf(value)
	}
	return out, true
}

func stringOf(v any) string {
	s, _ := v.(string)
	return s
}

func stringsOf(v any) []string {
	items, _ := v.([]any)
	var out []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
