package xrd

import (
	"slices"
	"time"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// SetCompositionName sets the composition reference; "" removes it.
func (i Instance) SetCompositionName(name string) {
	i.setObject(i.layout.CompositionRef, map[string]any{"name": name}, name != "")
}

// SetCompositionSelector sets the composition selector; nil removes it.
func (i Instance) SetCompositionSelector(labels map[string]string) {
	i.setLabels(i.layout.CompositionSelector, labels)
}

// SetRevisionName sets the revision reference; "" removes it.
func (i Instance) SetRevisionName(name string) {
	i.setObject(i.layout.CompositionRevisionRef, map[string]any{"name": name}, name != "")
}

// SetRevisionSelector sets the revision selector; nil removes it.
func (i Instance) SetRevisionSelector(labels map[string]string) {
	i.setLabels(i.layout.CompositionRevisionSelector, labels)
}

// SetUpdatePolicy sets the instance's compositionUpdatePolicy.
func (i Instance) SetUpdatePolicy(p v1.UpdatePolicy) {
	i.set(i.layout.CompositionUpdatePolicy, string(p))
}

// SetDeletePolicy sets a claim's compositeDeletePolicy.
func (i Instance) SetDeletePolicy(p v1.DeletePolicy) { i.set(i.layout.DeletePolicy, string(p)) }

// SetResourceRefs sets a composite's references to its composed objects, in the given order.
// References of a namespaced composite have no namespace field.
func (i Instance) SetResourceRefs(refs []ComposedRef) {
	if len(refs) == 0 {
		i.set(i.layout.ResourceRefs, nil)
		return
	}
	items := make([]any, 0, len(refs))
	for _, r := range refs {
		item := map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind}
		if i.layout.Namespaced {
			r.Namespace = ""
		}
		for name, value := range map[string]string{"namespace": r.Namespace, "name": r.Name, "resourceName": r.ResourceName} {
			if value != "" {
				item[name] = value
			}
		}
		if len(r.DependsOn) > 0 {
			item["dependsOn"] = toAnys(r.DependsOn)
		}
		items = append(items, item)
	}
	i.set(i.layout.ResourceRefs, items)
}

// SetClaimRef sets a composite's reference to its claim.
func (i Instance) SetClaimRef(r ObjectRef) {
	i.set(i.layout.ClaimRef, map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "namespace": r.Namespace, "name": r.Name})
}

// SetCompositeRef sets a claim's reference to its composite.
func (i Instance) SetCompositeRef(r ObjectRef) {
	i.set(i.layout.ResourceRef, map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "name": r.Name})
}

// SetConnectionSecretRef sets the instance's writeConnectionSecretToRef.
func (i Instance) SetConnectionSecretRef(r SecretRef) {
	ref := map[string]any{"name": r.Name}
	if len(i.layout.ClaimRef) > 0 { // only a composite's reference has a namespace
		ref["namespace"] = r.Namespace
	}
	i.set(i.layout.ConnectionSecretRef, ref)
}

// SetLastPublished sets the lastPublishedTime of connection details.
func (i Instance) SetLastPublished(at time.Time) {
	i.set(i.layout.LastPublishedTime, at.UTC().Format(time.RFC3339))
}

// SetConditions sets the instance's conditions, in the given order. The schema requires a
// lastTransitionTime, so each condition must have one.
func (i Instance) SetConditions(conditions []v1alpha1.Condition) {
	items := make([]any, 0, len(conditions))
	for _, c := range conditions {
		item := map[string]any{"type": c.Type, "status": string(c.Status), "reason": c.Reason}
		if c.LastTransitionTime != nil {
			item["lastTransitionTime"] = c.LastTransitionTime.UTC().Format(time.RFC3339)
		}
		if c.Message != "" {
			item["message"] = c.Message
		}
		if c.ObservedGeneration > 0 {
			item["observedGeneration"] = c.ObservedGeneration
		}
		items = append(items, item)
	}
	i.set(i.layout.Conditions, items)
}

// AddClaimConditionTypes adds types to the conditions that the composite's claim shows as well. It returns the
// refused types: system conditions, because a claim sets its own.
func (i Instance) AddClaimConditionTypes(types ...string) (refused []string) {
	all := i.ClaimConditionTypes()
	for _, t := range types {
		switch {
		case v1.IsSystemCondition(t):
			refused = append(refused, t)
		case !slices.Contains(all, t):
			all = append(all, t)
		}
	}
	if len(all) > 0 {
		slices.Sort(all)
		i.set(i.layout.ClaimConditionTypes, toAnys(all))
	}
	return refused
}

// set does nothing if the kind lacks the field; nil removes the value.
func (i Instance) set(p FieldPath, value any) {
	if len(p) == 0 {
		return
	}
	if i.object.Object == nil {
		i.object.Object = map[string]any{}
	}
	at := i.object.Object
	for _, name := range p[:len(p)-1] {
		next, ok := at[name].(map[string]any)
		if !ok {
			if value == nil {
				return
			}
			next = map[string]any{}
			at[name] = next
		}
		at = next
	}
	if value == nil {
		delete(at, p[len(p)-1])
		return
	}
	at[p[len(p)-1]] = value
}

func (i Instance) setObject(p FieldPath, value map[string]any, present bool) {
	if !present {
		i.set(p, nil)
		return
	}
	i.set(p, value)
}

func (i Instance) setLabels(p FieldPath, labels map[string]string) {
	match := map[string]any{}
	for name, value := range labels {
		match[name] = value
	}
	i.setObject(p, map[string]any{"matchLabels": match}, labels != nil)
}

func toAnys(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return out
}
