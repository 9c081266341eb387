package xrd

import (
	"slices"
	"time"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// SetComposition names the composition; "" none.
func (i Instance) SetComposition(name string) {
	i.setObject(i.places.CompositionRef, map[string]any{"name": name}, name != "")
}

// SetCompositionSelector selects compositions by labels; nil none.
func (i Instance) SetCompositionSelector(labels map[string]string) {
	i.setLabels(i.places.CompositionSelector, labels)
}

// SetRevision names the composition's revision; "" none.
func (i Instance) SetRevision(name string) {
	i.setObject(i.places.CompositionRevisionRef, map[string]any{"name": name}, name != "")
}

// SetRevisionSelector selects revisions by labels; nil none.
func (i Instance) SetRevisionSelector(labels map[string]string) {
	i.setLabels(i.places.CompositionRevisionSelector, labels)
}

// SetUpdatePolicy says whether the instance follows new revisions.
func (i Instance) SetUpdatePolicy(p v1.UpdatePolicy) {
	i.set(i.places.CompositionUpdatePolicy, string(p))
}

// SetDeletePolicy says whether a claim waits until its composite is gone.
func (i Instance) SetDeletePolicy(p v1.DeletePolicy) { i.set(i.places.DeletePolicy, string(p)) }

// SetComposed says what a composite is composed of, in the given order. Namespaces are
// left out of a namespaced composite, which has no place for them.
func (i Instance) SetComposed(refs []ComposedRef) {
	if len(refs) == 0 {
		i.set(i.places.ResourceRefs, nil)
		return
	}
	items := make([]any, 0, len(refs))
	for _, r := range refs {
		item := map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind}
		if i.places.Namespaced {
			r.Namespace = ""
		}
		for name, value := range map[string]string{"namespace": r.Namespace, "name": r.Name, "resourceName": r.ResourceName} {
			if value != "" {
				item[name] = value
			}
		}
		if len(r.DependsOn) > 0 {
			item["dependsOn"] = anys(r.DependsOn)
		}
		items = append(items, item)
	}
	i.set(i.places.ResourceRefs, items)
}

// SetClaim says which claim a composite belongs to.
func (i Instance) SetClaim(r ObjectRef) {
	i.set(i.places.ClaimRef, map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "namespace": r.Namespace, "name": r.Name})
}

// SetComposite says which composite a claim has.
func (i Instance) SetComposite(r ObjectRef) {
	i.set(i.places.ResourceRef, map[string]any{"apiVersion": r.APIVersion, "kind": r.Kind, "name": r.Name})
}

// SetConnectionSecret says where the instance's connection details go.
func (i Instance) SetConnectionSecret(r SecretRef) {
	ref := map[string]any{"name": r.Name}
	if len(i.places.ClaimRef) > 0 { // a composite's is in any namespace
		ref["namespace"] = r.Namespace
	}
	i.set(i.places.ConnectionSecretRef, ref)
}

// SetLastPublished says when connection details were last written.
func (i Instance) SetLastPublished(at time.Time) {
	i.set(i.places.LastPublishedTime, at.UTC().Format(time.RFC3339))
}

// SetConditions says how the instance is, in the given order. Kinds want each condition
// to say since when, so it has to have been marked.
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
	i.set(i.places.Conditions, items)
}

// AddClaimConditionTypes has the composite's claim show conditions of further types. It
// returns those that are refused: a claim has conditions of the machinery's own.
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
		i.set(i.places.ClaimConditionTypes, anys(all))
	}
	return refused
}

// set puts a value at a place, nil nothing. It does nothing where the kind has no such
// field.
func (i Instance) set(p Place, value any) {
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

func (i Instance) setObject(p Place, value map[string]any, present bool) {
	if !present {
		i.set(p, nil)
		return
	}
	i.set(p, value)
}

func (i Instance) setLabels(p Place, labels map[string]string) {
	match := map[string]any{}
	for name, value := range labels {
		match[name] = value
	}
	i.setObject(p, map[string]any{"matchLabels": match}, labels != nil)
}

func anys(texts []string) []any {
	out := make([]any, len(texts))
	for i, t := range texts {
		out[i] = t
	}
	return out
}
