package plan

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// LostFields lists the fields of desired that the field manager no longer owns on the current object: the fields that
// another manager has taken over. A field of a former engine counts as the manager's if it is to be transferred to it.
//
// The API server moves the ownership of a field to the manager that changes its value, so ownership shows drift
// exactly. Comparing values would report everything that the server normalizes, defaults or prunes.
func LostFields(desired, current *unstructured.Unstructured, manager string) []object.Path {
	return fieldsNotIn(managedfields.Applied(current, manager), desired, current)
}

func fieldsNotIn(owned *fieldpath.Set, desired, current *unstructured.Unstructured) []object.Path {
	var lost []object.Path
	for _, name := range slices.Sorted(maps.Keys(desired.Object)) {
		switch name {
		case "apiVersion", "kind":
		case "metadata":
			lost = append(lost, lostMetadata(desired.Object[name], owned, current)...)
		default:
			lost = append(lost, ownership.UnownedPaths(name, desired.Object[name], owned, "")...)
		}
	}
	return lost
}

// DriftedFields lists the fields of an object, last applied as desired, that other managers have changed: the lost
// ones, and the data of a Secret with other values. Another manager that applies stringData changes data without their
// ownership; the API server stores data as they are applied, so values can be compared.
func DriftedFields(desired, current *unstructured.Unstructured, manager string) []object.Path {
	drifted := LostFields(desired, current, manager)
	for _, field := range ChangedData(desired, current) {
		if !slices.Contains(drifted, field) {
			drifted = append(drifted, field)
		}
	}
	return drifted
}

// identity holds the fields of metadata that no manager owns.
var identity = map[string]bool{
	"name": true, "namespace": true, "uid": true, "resourceVersion": true,
	"generation": true, "creationTimestamp": true, "managedFields": true, "selfLink": true,
}

func lostMetadata(value any, owned *fieldpath.Set, current *unstructured.Unstructured) []object.Path {
	metadata, _ := value.(map[string]any)
	owned = owned.WithPrefix(fieldpath.FieldNameElement("metadata"))
	var lost []object.Path
	for _, name := range slices.Sorted(maps.Keys(metadata)) {
		switch {
		case name == "ownerReferences":
			lost = append(lost, lostReferences(metadata[name], current)...)
		case !identity[name]:
			lost = append(lost, ownership.UnownedPaths(name, metadata[name], owned, "metadata")...)
		}
	}
	return lost
}

// lostReferences lists the owner references that the object doesn't have any more. It compares the references
// themselves: the server stores them as they are written, and the cache drops the managed fields of each, because its
// path names the instance.
func lostReferences(value any, current *unstructured.Unstructured) []object.Path {
	has := current.GetOwnerReferences()
	refs, _ := value.([]any)
	var lost []object.Path
	for i, item := range refs {
		ref, _ := item.(map[string]any)
		controls, _ := ref["controller"].(bool)
		there := slices.ContainsFunc(has, func(r metav1.OwnerReference) bool {
			// The garbage collector deletes an object if its owner has another kind or name than the reference says.
			return string(r.UID) == ref["uid"] && r.APIVersion == ref["apiVersion"] && r.Kind == ref["kind"] && r.Name == ref["name"] &&
				(r.Controller != nil && *r.Controller) == controls
		})
		if !there {
			lost = append(lost, object.Path("metadata.ownerReferences").Index(i))
		}
	}
	return lost
}

// Intact holds, by the UID of a child, the resource version at which it had all fields that were last applied to it.
// Comparing them again takes most of the time of a decision, and most children have not changed after the last one.
// What was applied is part of the child: it has the digest.
type Intact map[types.UID]string

func (i Intact) has(child *unstructured.Unstructured) bool {
	at, known := i[child.GetUID()]
	return known && at != "" && at == child.GetResourceVersion()
}

// Next returns what a plan has found out. The former is changed if it has little to be forgotten.
func (i Intact) Next(steps []Step) Intact {
	found := 0
	for _, step := range steps {
		if step.Intact {
			found++
		}
	}
	if i == nil || len(i) > found {
		i = make(Intact, found)
	}
	for _, step := range steps {
		if step.Intact {
			i[step.Current.GetUID()] = step.Current.GetResourceVersion()
		}
	}
	return i
}
