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

// Aspect is a part of an object that people look at on its own.
type Aspect string

// Aspects, in the order in which they are told.
const (
	Managers    Aspect = "managers"    // who owns fields, by metadata.managedFields
	Owners      Aspect = "owners"      // metadata.ownerReferences
	Finalizers  Aspect = "finalizers"  // metadata.finalizers
	Labels      Aspect = "labels"      // keys of metadata.labels
	Annotations Aspect = "annotations" // keys of metadata.annotations
	Fields      Aspect = "fields"      // paths of everything else but the status
	Conditions  Aspect = "conditions"  // status.conditions
	Status      Aspect = "status"      // other fields of the status
)

// Difference is what is different in one aspect of an object. Values are told of conditions
// only: others may be secret.
type Difference struct {
	Aspect Aspect `json:"aspect"`
	// Renamed are pairs of field managers: the fields of the first go to the second.
	Renamed []Rename `json:"renamed,omitempty"`
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`
	Changed []string `json:"changed,omitempty"`
}

// Rename is a field manager whose fields another gets.
type Rename struct {
	From string `json:"from"`
	To   string `json:"to"`
}

func (d Difference) isEmpty() bool {
	return len(d.Renamed)+len(d.Added)+len(d.Removed)+len(d.Changed) == 0
}

// Diff compares two states of an object. When they were written isn't compared.
func Diff(before, after *unstructured.Unstructured) []Difference {
	all := []Difference{
		managers(before, after),
		keyed(Owners, owners(before), owners(after)),
		keyed(Finalizers, set(before.GetFinalizers()), set(after.GetFinalizers())),
		keyed(Labels, before.GetLabels(), after.GetLabels()),
		keyed(Annotations, before.GetAnnotations(), after.GetAnnotations()),
		fields(before, after),
		conditions(before, after),
		status(before, after),
	}
	return slices.DeleteFunc(all, Difference.isEmpty)
}

// keyed compares maps by their keys and values, and tells of keys.
func keyed(aspect Aspect, before, after map[string]string) Difference {
	d := Difference{Aspect: aspect}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		switch value, is := after[key]; {
		case !is:
			d.Removed = append(d.Removed, key)
		case value != before[key]:
			d.Changed = append(d.Changed, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if _, was := before[key]; !was {
			d.Added = append(d.Added, key)
		}
	}
	return d
}

func set(list []string) map[string]string {
	out := map[string]string{}
	for _, item := range list {
		out[item] = ""
	}
	return out
}

// owners are references to owners by what they refer to, with how.
func owners(o *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, ref := range o.GetOwnerReferences() {
		out[ref.Kind+" "+ref.Name] = fmt.Sprint(ref.UID, ref.Controller != nil && *ref.Controller, ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion, ref.APIVersion)
	}
	return out
}

// fields compares what is neither metadata nor status.
func fields(before, after *unstructured.Unstructured) Difference {
	d := Difference{Aspect: Fields}
	d.compare("", besides(before), besides(after))
	return d
}

// besides are an object's fields that no other aspect is about.
func besides(o *unstructured.Unstructured) map[string]any {
	out := maps.Clone(o.Object)
	metadata := map[string]any{}
	for _, field := range []string{"generateName", "deletionTimestamp"} {
		if value, has, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata", field); has {
			metadata[field] = value
		}
	}
	delete(out, "status")
	delete(out, "apiVersion")
	out["metadata"] = metadata
	return out
}

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
		a, was := before[key]
		b, is := after[key]
		x, isMap := a.(map[string]any)
		y, areMaps := b.(map[string]any)
		switch {
		case reflect.DeepEqual(a, b):
		case isMap && areMaps:
			d.compare(path, x, y)
		case !was:
			d.Added = append(d.Added, path.String())
		case !is:
			d.Removed = append(d.Removed, path.String())
		default:
			d.Changed = append(d.Changed, path.String())
		}
	}
}

// conditions compares conditions by their status and reason.
func conditions(before, after *unstructured.Unstructured) Difference {
	d := Difference{Aspect: Conditions}
	was, is := conditionTexts(before), conditionTexts(after)
	for _, kind := range slices.Sorted(maps.Keys(was)) {
		switch now, there := is[kind]; {
		case !there:
			d.Removed = append(d.Removed, kind)
		case now != was[kind]:
			d.Changed = append(d.Changed, fmt.Sprintf("%s: %s → %s", kind, was[kind], now))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(is)) {
		if _, there := was[kind]; !there {
			d.Added = append(d.Added, kind+": "+is[kind])
		}
	}
	return d
}

// conditionTexts are the conditions of an object by their types.
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

// status compares the fields of a status by their names, but for conditions.
func status(before, after *unstructured.Unstructured) Difference {
	d := Difference{Aspect: Status}
	was, _, _ := unstructured.NestedMap(before.Object, "status")
	is, _, _ := unstructured.NestedMap(after.Object, "status")
	for _, key := range slices.Sorted(maps.Keys(was)) {
		switch value, there := is[key]; {
		case key == "conditions":
		case !there:
			d.Removed = append(d.Removed, key)
		case !reflect.DeepEqual(value, was[key]):
			d.Changed = append(d.Changed, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(is)) {
		if _, there := was[key]; !there && key != "conditions" {
			d.Added = append(d.Added, key)
		}
	}
	return d
}

// owned is what a field manager owns.
type owned struct {
	name string
	set  *fieldpath.Set
}

// managers compares who owns fields. A manager that goes, and whose fields others have
// then, is renamed to these.
func managers(before, after *unstructured.Unstructured) Difference {
	d := Difference{Aspect: Managers}
	was, is := ownedOf(before), ownedOf(after)
	gaining := map[string]bool{}
	for _, former := range was {
		if slices.ContainsFunc(is, func(o owned) bool { return o.name == former.name }) {
			continue
		}
		renamed := false
		for _, now := range is {
			gained := now.set
			if i := slices.IndexFunc(was, func(o owned) bool { return o.name == now.name }); i >= 0 {
				gained = gained.Difference(was[i].set)
			}
			if !gained.Intersection(former.set).Empty() {
				d.Renamed = append(d.Renamed, Rename{former.name, now.name})
				gaining[now.name], renamed = true, true
			}
		}
		if !renamed {
			d.Removed = append(d.Removed, former.name)
		}
	}
	for _, now := range is {
		if !gaining[now.name] && !slices.ContainsFunc(was, func(o owned) bool { return o.name == now.name }) {
			d.Added = append(d.Added, now.name)
		}
	}
	return d
}

// ownedOf is what the managers of an object own, in the order of their names: by name,
// operation and subresource, for what is written in several versions together.
func ownedOf(o *unstructured.Unstructured) []owned {
	var out []owned
	for _, e := range o.GetManagedFields() {
		name, set := managerName(e), ownership.Decode(e)
		if i := slices.IndexFunc(out, func(o owned) bool { return o.name == name }); i >= 0 {
			out[i].set = out[i].set.Union(set)
			continue
		}
		out = append(out, owned{name, set})
	}
	slices.SortFunc(out, func(a, b owned) int { return strings.Compare(a.name, b.name) })
	return out
}

// managerName is an entry of managed fields as people read it.
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
