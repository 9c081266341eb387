package xrd

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// Instance is a composite or a claim, with the knowledge of where it keeps what belongs
// to the machinery. What it hasn't, or has in a form that its schema wouldn't allow, is
// read as the zero value.
type Instance struct {
	object *unstructured.Unstructured
	places Places
}

// At returns the instance that an object is. Setting something changes the object, so
// one from a cache has to be a copy.
func At(o *unstructured.Unstructured, p Places) Instance { return Instance{object: o, places: p} }

// Object is the composite or claim itself.
func (i Instance) Object() *unstructured.Unstructured { return i.object }

// Places are where it keeps what belongs to the machinery.
func (i Instance) Places() Places { return i.places }

// Composition is the name of the composition that the instance is to be composed by.
func (i Instance) Composition() string { return i.text(i.places.CompositionRef, "name") }

// CompositionSelector are the labels of compositions that the instance may be composed
// by, if it selects any.
func (i Instance) CompositionSelector() (labels map[string]string, selects bool) {
	return i.labels(i.places.CompositionSelector)
}

// Revision is the name of the composition's revision that the instance is composed by.
func (i Instance) Revision() string { return i.text(i.places.CompositionRevisionRef, "name") }

// RevisionSelector are the labels of revisions that the instance follows, if it selects
// any.
func (i Instance) RevisionSelector() (labels map[string]string, selects bool) {
	return i.labels(i.places.CompositionRevisionSelector)
}

// UpdatePolicy says whether the instance follows new revisions, which is so unless it
// says otherwise.
func (i Instance) UpdatePolicy() v1.UpdatePolicy {
	if v1.UpdatePolicy(i.text(i.places.CompositionUpdatePolicy)) == v1.UpdateManual {
		return v1.UpdateManual
	}
	return v1.UpdateAutomatic
}

// DeletePolicy says whether a claim waits until its composite is gone, which is not so
// unless it says so.
func (i Instance) DeletePolicy() v1.DeletePolicy {
	if v1.DeletePolicy(i.text(i.places.DeletePolicy)) == v1.DeleteForeground {
		return v1.DeleteForeground
	}
	return v1.DeleteBackground
}

// Composed are the objects that a composite refers to as what it is composed of.
func (i Instance) Composed() []ComposedRef {
	items, _ := i.get(i.places.ResourceRefs).([]any)
	var out []ComposedRef
	for _, item := range items {
		m, ok := item.(map[string]any)
		if !ok {
			continue
		}
		out = append(out, ComposedRef{
			APIVersion: textOf(m["apiVersion"]), Kind: textOf(m["kind"]), Namespace: textOf(m["namespace"]),
			Name: textOf(m["name"]), ResourceName: textOf(m["resourceName"]), DependsOn: textsOf(m["dependsOn"]),
		})
	}
	return out
}

// Claim is the claim that a composite belongs to, if there is one.
func (i Instance) Claim() (ref ObjectRef, claimed bool) { return i.ref(i.places.ClaimRef) }

// Composite is the composite of a claim, once there is to be one.
func (i Instance) Composite() (ref ObjectRef, bound bool) { return i.ref(i.places.ResourceRef) }

// ConnectionSecret is where the instance wants its connection details, if it does.
func (i Instance) ConnectionSecret() (ref SecretRef, wanted bool) {
	p := i.places.ConnectionSecretRef
	ref = SecretRef{Namespace: i.text(p, "namespace"), Name: i.text(p, "name")}
	return ref, ref.Name != ""
}

// LastPublished is when connection details were last written, as the instance says it.
func (i Instance) LastPublished() string { return i.text(i.places.LastPublishedTime) }

// Conditions are those of the instance, in its order.
func (i Instance) Conditions() []v1alpha1.Condition {
	items, _ := i.get(i.places.Conditions).([]any)
	var out []v1alpha1.Condition
	for _, item := range items {
		var c v1alpha1.Condition
		if m, ok := item.(map[string]any); ok && runtime.DefaultUnstructuredConverter.FromUnstructured(m, &c) == nil {
			out = append(out, c)
		}
	}
	return out
}

// ClaimConditionTypes are the types of those conditions of a composite that its claim
// shows as well, sorted.
func (i Instance) ClaimConditionTypes() []string {
	out := textsOf(i.get(i.places.ClaimConditionTypes))
	slices.Sort(out)
	return out
}

// get is what is at a place and below; nil if there is nothing.
func (i Instance) get(p Place, more ...string) any {
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

func (i Instance) text(p Place, more ...string) string { return textOf(i.get(p, more...)) }

func (i Instance) ref(p Place) (ObjectRef, bool) {
	m, ok := i.get(p).(map[string]any)
	if !ok {
		return ObjectRef{}, false
	}
	ref := ObjectRef{APIVersion: textOf(m["apiVersion"]), Kind: textOf(m["kind"]), Namespace: textOf(m["namespace"]), Name: textOf(m["name"])}
	return ref, ref.Name != ""
}

func (i Instance) labels(p Place) (map[string]string, bool) {
	if _, ok := i.get(p).(map[string]any); !ok {
		return nil, false
	}
	out := map[string]string{}
	m, _ := i.get(p, "matchLabels").(map[string]any)
	for name, value := range m {
		out[name] = textOf(value)
	}
	return out, true
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}

func textsOf(v any) []string {
	items, _ := v.([]any)
	var out []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
