package preview

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// FieldChange is a field that would change.
type FieldChange struct {
	Path string `json:"path"`
	// Before and After are JSON; empty for a field that is absent, and for a hidden one.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	// Hidden says that the values are not shown, since they come from a Secret.
	Hidden bool `json:"hidden,omitempty"`
	// Added and Removed say that there is no value before, or after.
	Added   bool `json:"added,omitempty"`
	Removed bool `json:"removed,omitempty"`
}

// recordPrefixes are those of the labels and annotations in which Espalier keeps its records.
var recordPrefixes = []string{"espalier.dev/", "internal.kro.run/", "applyset.kubernetes.io/"}

// diff compares the fields that are desired of an object, without its status. Records says that
// Espalier's own records differ.
func diff(before, after *unstructured.Unstructured, hides func(object.Path, any) bool) (fields []FieldChange, records bool) {
	d := differ{hides: hides}
	a, recordsA := desired(before)
	b, recordsB := desired(after)
	d.compare("", a, b)
	return d.out, !reflect.DeepEqual(recordsA, recordsB)
}

// desired splits an object into the fields that are desired and Espalier's records.
func desired(o *unstructured.Unstructured) (fields, records map[string]any) {
	fields, records = maps.Clone(o.Object), map[string]any{}
	delete(fields, "status")
	metadata := map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		values, _, _ := unstructured.NestedMap(o.Object, "metadata", field)
		for key := range values {
			if slices.ContainsFunc(recordPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) || key == lastApplied {
				records[field+"/"+key] = values[key]
				delete(values, key)
			}
		}
		if len(values) > 0 {
			metadata[field] = values
		}
	}
	delete(records, "annotations/"+lastApplied) // it repeats the object
	if finalizers := o.GetFinalizers(); len(finalizers) > 0 {
		records["finalizers"] = finalizers
	}
	if references := o.GetOwnerReferences(); len(references) > 0 {
		records["ownerReferences"] = references
	}
	if inventory.IsComposite(o) {
		fields = withoutRecordedRefs(fields)
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	fields["metadata"] = metadata
	return fields, records
}

// lastApplied is the annotation in which kubectl keeps what it applied.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// withoutRecordedRefs removes the lists in which controllers record the resources of a composite.
func withoutRecordedRefs(fields map[string]any) map[string]any {
	return object.WithoutFields(fields, []object.Path{"spec.resourceRefs", "spec.crossplane.resourceRefs"})
}

type differ struct {
	hides func(object.Path, any) bool
	// wholeLists says that items of lists are not compared on their own.
	wholeLists bool
	out        []FieldChange
}

func (d *differ) compare(at object.Path, before, after any) {
	if reflect.DeepEqual(before, after) {
		return
	}
	a, isMapA := before.(map[string]any)
	b, isMapB := after.(map[string]any)
	if isMapA && isMapB {
		keys := maps.Collect(maps.All(a))
		maps.Copy(keys, b)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			d.member(at.Field(key), a, b, key)
		}
		return
	}
	listA, isListA := before.([]any)
	listB, isListB := after.([]any)
	if isListA && isListB && !d.wholeLists && d.lists(at, listA, listB) {
		return
	}
	d.add(at, FieldChange{}, before, after)
}

func (d *differ) member(at object.Path, a, b map[string]any, key string) {
	before, inBefore := a[key]
	after, inAfter := b[key]
	switch {
	case !inBefore:
		d.add(at, FieldChange{Added: true}, nil, after)
	case !inAfter:
		d.add(at, FieldChange{Removed: true}, before, nil)
	default:
		d.compare(at, before, after)
	}
}

// lists compares lists of objects that have a unique name or id by that, and other lists of the same
// length item by item. It returns false for lists that are better shown as a whole.
func (d *differ) lists(at object.Path, a, b []any) bool {
	for _, field := range []string{"name", "id", "step", "type"} {
		before, okA := byKey(a, field)
		after, okB := byKey(b, field)
		if !okA || !okB {
			continue
		}
		known := len(d.out)
		keys := maps.Clone(before)
		maps.Copy(keys, after)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			d.member(at+object.Path("["+field+"="+key+"]"), before, after, key)
		}
		return len(d.out) > known // or else the order differs
	}
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		d.compare(at.Index(i), a[i], b[i])
	}
	return true
}

// byKey has the items of a list by a field, if all have another value of it.
func byKey(list []any, field string) (map[string]any, bool) {
	out := map[string]any{}
	for _, item := range list {
		m, _ := item.(map[string]any)
		key, ok := m[field].(string)
		if _, twice := out[key]; !ok || twice {
			return nil, false
		}
		out[key] = item
	}
	return out, len(list) > 0
}

func (d *differ) add(at object.Path, change FieldChange, before, after any) {
	change.Path = at.String()
	if d.hides(at, before) || d.hides(at, after) {
		change.Hidden = true
		d.out = append(d.out, change)
		return
	}
	if !change.Added {
		change.Before = encode(before)
	}
	if !change.Removed {
		change.After = encode(after)
	}
	d.out = append(d.out, change)
}

func encode(v any) json.RawMessage {
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false) // expressions have && and <
	if e.Encode(v) != nil {
		return nil // values of objects can be encoded
	}
	return bytes.TrimSpace(raw.Bytes())
}
