package takeover

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// Aspect is a part of an object that a plan compares on its own.
type Aspect string

// Aspects, in the order of a plan.
const (
	Managers    Aspect = "managers"    // field managers, by metadata.managedFields
	Owners      Aspect = "owners"      // metadata.ownerReferences
	Finalizers  Aspect = "finalizers"  // metadata.finalizers
	Labels      Aspect = "labels"      // keys of metadata.labels
	Annotations Aspect = "annotations" // keys of metadata.annotations
	Fields      Aspect = "fields"      // paths of all other fields outside of the status
	Conditions  Aspect = "conditions"  // status.conditions
	Status      Aspect = "status"      // other fields of the status
)

// Difference is the difference between two states of an object in one aspect. It has values of
// conditions only: others may be secret.
type Difference struct {
	Aspect Aspect `json:"aspect"`
	// Renamed are pairs of field managers: the second gets fields of the first.
	Renamed []Rename `json:"renamed,omitempty"`
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// Rename is a field manager, and another that gets its fields.
type Rename struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func (d Difference) isEmpty() bool {
	return len(d.Renamed)+len(d.Added)+len(d.Removed)+len(d.Changed) == 0
}

// Diff compares two states of an object, without resource versions and times.
func Diff(before, after *unstructured.Unstructured) []Difference {
	all := []Difference{
		diffManagers(before, after),
		diffMaps(Owners, ownerReferences(before), ownerReferences(after)),
		diffMaps(Finalizers, keySet(before.GetFinalizers()), keySet(after.GetFinalizers())),
		diffMaps(Labels, before.GetLabels(), after.GetLabels()),
		diffMaps(Annotations, before.GetAnnotations(), after.GetAnnotations()),
		diffFields(before, after),
		diffConditions(before, after),
		diffStatus(before, after),
	}
	return slices.DeleteFunc(all, Difference.isEmpty)
}

// diffMaps compares keys and values, and returns keys.
func diffMaps(aspect Aspect, before, after map[string]string) Difference {
	d := Difference{Aspect: aspect}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		switch value, ok := after[key]; {
		case !ok:
			d.Removed = append(d.Removed, key)
		case value != before[key]:
			d.Changed = append(d.Changed, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if _, ok := before[key]; !ok {
			d.Added = append(d.Added, key)
		}
	}
	return d
}

func keySet(list []string) map[string]string {
	out := map[string]string{}
	for _, item := range list {
		out[item] = ""
	}
	return out
}

// ownerReferences are the owner references of an object by kind and name, with their other
// fields as text.
func ownerReferences(o *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, ref := range o.GetOwnerReferences() {
		out[ref.Kind+" "+ref.Name] = fmt.Sprint(ref.UID, ref.Controller != nil && *ref.Controller, ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion,
			ref.APIVersion)
	}
	return out
}

// diffFields compares the fields that no other aspect covers.
func diffFields(before, after *unstructured.Unstructured) Difference {
	d := Difference{Aspect: Fields}
	d.compare("", otherFields(before), otherFields(after))
	return d
}

// otherFields are an object's fields that no other aspect covers.
func otherFields(o *unstructured.Unstructured) map[string]any {
	out := maps.Clone(o.Object)
	metadata := map[string]any{}
	for _, field := range []string{"generateName", "deletionTimestamp"} {
		if value, found, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata", field); found {
			metadata[field] = value
		}
	}
	delete(out, "status")
	delete(out, "apiVersion")
	out["metadata"] = metadata
	return out
}

// compare adds the differences of two maps at a path.
func (d *Difference) compare(at object.Path, before, after map[string]any) {
	keys := map[string]bool{}
	for key := range before {
		keys[key] = true
	}
	for key := range after {
		keys[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		path := at.Field(key)
		a, inBefore := before[key]
		b, inAfter := after[key]
		mapA, isMapA := a.(map[string]any)
		mapB, isMapB := b.(map[string]any)
		switch {
		case reflect.DeepEqual(a, b):
		case isMapA && isMapB:
			d.compare(path, mapA, mapB)
		case !inBefore:
			d.Added = append(d.Added, path.String())
		case !inAfter:
			d.Removed = append(d.Removed, path.String())
		default:
			d.Changed = append(d.Changed, path.String())
		}
	}
}

// diffConditions compares conditions by status and reason.
func diffConditions(before, after *unstructured.Unstructured) Difference {
	d := Difference{Aspect: Conditions}
	old, current := conditionTexts(before), conditionTexts(after)
	for _, kind := range slices.Sorted(maps.Keys(old)) {
		switch text, ok := current[kind]; {
		case !ok:
			d.Removed = append(d.Removed, kind)
		case text != old[kind]:
			d.Changed = append(d.Changed, fmt.Sprintf("%s: %s → %s", kind, old[kind], text))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(current)) {
		if _, ok := old[kind]; !ok {
			d.Added = append(d.Added, kind+": "+current[kind])
		}
	}
	return d
}

// conditionTexts are status and reason of an object's conditions, by type.
func conditionTexts(o *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, c := range condition.Read(o) {
		text := string(c.Status)
		if c.Reason != "" {
			text += " (" + c.Reason + ")"
		}
		out[c.Type] = text
	}
	return out
}

// diffStatus compares the top-level fields of the status except conditions.
func diffStatus(before, after *unstructured.Unstructured) Difference {
	d := Difference{Aspect: Status}
	old, _, _ := unstructured.NestedMap(before.Object, "status")
	current, _, _ := unstructured.NestedMap(after.Object, "status")
	for _, key := range slices.Sorted(maps.Keys(old)) {
		switch value, ok := current[key]; {
		case key == "conditions":
		case !ok:
			d.Removed = append(d.Removed, key)
		case !reflect.DeepEqual(value, old[key]):
			d.Changed = append(d.Changed, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(current)) {
		if _, ok := old[key]; !ok && key != "conditions" {
			d.Added = append(d.Added, key)
		}
	}
	return d
}

// manager is a field manager with the fields that it owns.
type manager struct {
	name   string
	fields *fieldpath.Set
}

// diffManagers compares the field managers. A manager that no longer owns anything counts as
// renamed to the managers that gain its fields, and as removed if there are none.
func diffManagers(before, after *unstructured.Unstructured) Difference {
	d := Difference{Aspect: Managers}
	old, current := managersOf(before), managersOf(after)
	indexOf := func(all []manager, name string) int {
		return slices.IndexFunc(all, func(m manager) bool { return m.name == name })
	}
	gains := map[string]bool{}
	for _, from := range old {
		if indexOf(current, from.name) >= 0 {
			continue
		}
		renamed := false
		for _, to := range current {
			gained := to.fields
			if i := indexOf(old, to.name); i >= 0 {
				gained = gained.Difference(old[i].fields)
			}
			if !gained.Intersection(from.fields).Empty() {
				d.Renamed = append(d.Renamed, Rename{from.name, to.name})
				gains[to.name], renamed = true, true
			}
		}
		if !renamed {
			d.Removed = append(d.Removed, from.name)
		}
	}
	for _, m := range current {
		if !gains[m.name] && indexOf(old, m.name) < 0 {
			d.Added = append(d.Added, m.name)
		}
	}
	return d
}

// managersOf returns the field managers of an object, sorted by name. Entries that differ in the
// API version only are merged.
func managersOf(o *unstructured.Unstructured) []manager {
	var out []manager
	for _, e := range o.GetManagedFields() {
		name, fields := managerName(e), ownership.Decode(e)
		if i := slices.IndexFunc(out, func(m manager) bool { return m.name == name }); i >= 0 {
			out[i].fields = out[i].fields.Union(fields)
			continue
		}
		out = append(out, manager{name, fields})
	}
	slices.SortFunc(out, func(a, b manager) int { return strings.Compare(a.name, b.name) })
	return out
}

// managerName is the name that a plan shows for an entry of managed fields: the manager's,
// with operation and subresource.
func managerName(e metav1.ManagedFieldsEntry) string {
	name := e.Manager
	if e.Operation == metav1.ManagedFieldsOperationUpdate {
		name += " (Update)"
	}
	if e.Subresource != "" {
		name += " on " + e.Subresource
	}
	return name
}
