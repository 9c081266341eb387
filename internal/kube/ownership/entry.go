// Package ownership reads which manager owns which fields of an object from metadata.managedFields, as server-side
// apply writes them. See docs/design/0002-drift-by-field-ownership.md.
//
// The fields of a manager are a fieldpath.Set of structured-merge-diff, the library that the API server uses to write
// managed fields. Union, difference and intersection are the library's. This package decodes and encodes entries, finds
// the owners of a path, and compares a set with values: which fields of a value are in it, which are not, and which of
// them differ on the object.
//
// In a set a field is a member, has members below it, or both. A field that is a member without members below it is
// owned as a whole. A set has no schema, so a list item is found by its path element.
//
// Pure: it decides from values alone.
package ownership

import (
	"iter"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Entry is one entry of an object's managed fields.
type Entry struct {
	Manager     string
	Operation   metav1.ManagedFieldsOperationType
	Subresource string

	fields map[string]any
	time   string
}

// Entries iterates over the managed fields of an object. It copies nothing, and fields are
// decoded on request only: every reconcile reads the entries of every child.
func Entries(o *unstructured.Unstructured) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		metadata, _ := o.Object["metadata"].(map[string]any)
		entries, _ := metadata["managedFields"].([]any)
		for _, e := range entries {
			raw, _ := e.(map[string]any)
			if !yield(EntryOf(raw)) {
				return
			}
		}
	}
}

// EntryOf returns an entry from its unstructured form.
func EntryOf(raw map[string]any) Entry {
	manager, _ := raw["manager"].(string)
	operation, _ := raw["operation"].(string)
	subresource, _ := raw["subresource"].(string)
	fields, _ := raw["fieldsV1"].(map[string]any)
	at, _ := raw["time"].(string)
	return Entry{Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), Subresource: subresource, fields: fields, time: at}
}

// Fields returns what the entry owns.
func (e Entry) Fields() *fieldpath.Set {
	set, ok := decodeFields(e.fields)
	if !ok {
		return &fieldpath.Set{}
	}
	return set
}

// HasField reports whether the entry owns a top-level field, or something below it. It decodes
// nothing.
func (e Entry) HasField(name string) bool {
	_, has := e.fields[fieldPrefix+name]
	return has
}

// AppliedFields returns the fields that a manager has applied to an object, without the fields of subresources. The set
// is empty if there are none.
func AppliedFields(o *unstructured.Unstructured, manager string) *fieldpath.Set {
	for e := range Entries(o) {
		if e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == "" {
			return e.Fields()
		}
	}
	return &fieldpath.Set{}
}

// Managers returns the managers of an object with an entry that matches, sorted and
// distinct.
func Managers(o *unstructured.Unstructured, matches func(Entry) bool) []string {
	var names []string
	for e := range Entries(o) {
		if !slices.Contains(names, e.Manager) && matches(e) {
			names = append(names, e.Manager)
		}
	}
	slices.Sort(names)
	return names
}

// Owners returns the managers that own a path or something below it, sorted and distinct.
func Owners(o *unstructured.Unstructured, path fieldpath.Path) []string {
	return Managers(o, func(e Entry) bool { return Owns(e.Fields(), path) })
}
