package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/fieldmanager"
	"github.com/espalier-dev/espalier/internal/object"
)

// Lost lists the fields of desired that the object's field manager no longer
// owns on the current object: those that somebody else has taken over since. What a
// former engine owns counts as the manager's where it is to be folded into its fields.
//
// The API server moves the ownership of a field to whoever changes its value,
// so ownership tells drift exactly, where comparing values would trip over
// everything that the server normalizes, defaults or prunes. The entry's format
// is FieldsV1, see k8s.io/apimachinery/pkg/apis/meta/v1.
func Lost(desired, current *unstructured.Unstructured, manager string) []object.Path {
	owned := fieldmanager.Applied(current, manager)
	var lost []object.Path
	for _, key := range slices.Sorted(maps.Keys(desired.Object)) {
		switch key {
		case "apiVersion", "kind":
		case "metadata":
			lost = append(lost, lostMetadata(desired.Object[key], owned, current)...)
		default:
			lost = append(lost, lostField(desired.Object[key], owned, key, "")...)
		}
	}
	return lost
}

// identity holds the fields of metadata that nobody owns.
var identity = map[string]bool{
	"name": true, "namespace": true, "uid": true, "resourceVersion": true,
	"generation": true, "creationTimestamp": true, "managedFields": true, "selfLink": true,
}

func lostMetadata(value any, owned map[string]any, current *unstructured.Unstructured) []object.Path {
	m, _ := value.(map[string]any)
	fields, _ := owned["f:metadata"].(map[string]any)
	var lost []object.Path
	for _, key := range slices.Sorted(maps.Keys(m)) {
		switch {
		case key == "ownerReferences":
			lost = append(lost, lostReferences(m[key], current)...)
		case !identity[key]:
			lost = append(lost, lostField(m[key], fields, key, "metadata")...)
		}
	}
	return lost
}

// lostReferences lists the owners that the object doesn't have any more. The server leaves
// references as they are written, so that looking at them suffices; and who owns one isn't
// kept, since each names an instance.
func lostReferences(value any, current *unstructured.Unstructured) []object.Path {
	has := current.GetOwnerReferences()
	refs, _ := value.([]any)
	var lost []object.Path
	for i, item := range refs {
		ref, _ := item.(map[string]any)
		controls, _ := ref["controller"].(bool)
		there := slices.ContainsFunc(has, func(r metav1.OwnerReference) bool {
			return string(r.UID) == ref["uid"] && (r.Controller != nil && *r.Controller) == controls
		})
		if !there {
			lost = append(lost, object.Path("metadata.ownerReferences").Index(i))
		}
	}
	return lost
}

func lostField(value any, owned map[string]any, key string, at object.Path) []object.Path {
	if value == nil {
		return nil // null in an apply configuration asks for nothing
	}
	raw, ok := owned["f:"+key]
	if !ok {
		return leaves(value, at.Field(key))
	}
	fields, _ := raw.(map[string]any)
	return lostBelow(value, fields, at.Field(key))
}

// leaves names the fields of a map that is lost as a whole, one by one.
func leaves(value any, at object.Path) []object.Path {
	m, ok := value.(map[string]any)
	if !ok || len(m) == 0 {
		return []object.Path{at}
	}
	var out []object.Path
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if m[key] != nil {
			out = append(out, leaves(m[key], at.Field(key))...)
		}
	}
	return out
}

func lostBelow(value any, owned map[string]any, at object.Path) []object.Path {
	if len(owned) == 0 {
		return nil // a leaf, or a value that is owned as a whole
	}
	var lost []object.Path
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			lost = append(lost, lostField(v[key], owned, key, at)...)
		}
	case []any:
		for i, item := range v {
			fields, ok := itemFields(item, owned)
			if !ok {
				lost = append(lost, at.Index(i))
				continue
			}
			lost = append(lost, lostBelow(item, fields, at.Index(i))...)
		}
	}
	return lost
}

// itemFields finds a list item's entry: by value for sets ("v:…"), by the
// values of its keys for associative lists ("k:{…}"). A key that the item leaves
// out was defaulted by the server and matches anything.
func itemFields(item any, owned map[string]any) (map[string]any, bool) {
	m, isMap := item.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(owned)) {
		fields, _ := owned[key].(map[string]any)
		if raw, ok := strings.CutPrefix(key, "v:"); ok && !isMap && sameJSON(raw, item) {
			return fields, true
		}
		raw, ok := strings.CutPrefix(key, "k:")
		if !ok || !isMap {
			continue
		}
		var keys map[string]json.RawMessage
		if json.Unmarshal([]byte(raw), &keys) != nil {
			continue
		}
		matches := true
		for k, want := range keys {
			if got, ok := m[k]; ok && !sameJSON(string(want), got) {
				matches = false
			}
		}
		if matches {
			return fields, true
		}
	}
	return nil, false
}

// sameJSON compares values, not texts: which characters are escaped is the
// writer's choice.
func sameJSON(raw string, value any) bool {
	got, err := json.Marshal(value)
	if err != nil {
		return false
	}
	if string(got) == raw {
		return true
	}
	var decoded any
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	if d.Decode(&decoded) != nil {
		return false
	}
	want, err := json.Marshal(decoded)
	return err == nil && string(got) == string(want)
}
