package preview

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

const managedFields object.Path = "metadata.managedFields"

// shownRecords are the paths whose values are names or come from controllers. All other values may be secret.
var shownRecords = []string{string(managedFields), "metadata.ownerReferences", "metadata.finalizers",
	"status.conditions.", "status.conditions["}

// managerDigest matches the name of a field manager of Crossplane up to the first digits of its digest, and the other digits.
var managerDigest = regexp.MustCompile(`(crossplane\.io/composed/[0-9a-f]{8})[0-9a-f]+`)

// diffRecords compares all of an object except for what each write changes.
func diffRecords(before, after *unstructured.Unstructured) []FieldChange {
	d := differ{wholeLists: true, hides: func(at object.Path, _ any) bool {
		return !slices.ContainsFunc(shownRecords, func(prefix string) bool { return strings.HasPrefix(at.String(), prefix) })
	}}
	d.managers(managersOf(before), managersOf(after))
	d.compare("", recorded(before), recorded(after))
	return d.out
}

// managers compares field managers. One that no longer owns anything is followed by each that gains fields of it.
func (d *differ) managers(before, after map[string]*fieldpath.Set) {
	gaining := map[string]bool{}
	for _, from := range slices.Sorted(maps.Keys(before)) {
		if after[from] != nil {
			continue
		}
		isFollowed := false
		for _, to := range slices.Sorted(maps.Keys(after)) {
			gained := after[to]
			if before[to] != nil {
				gained = gained.Difference(before[to])
			}
			if !gained.Intersection(before[from]).Empty() {
				d.add(managedFields, FieldChange{}, from, to)
				gaining[to], isFollowed = true, true
			}
		}
		if !isFollowed {
			d.add(managedFields, FieldChange{Removed: true}, from, nil)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] == nil && !gaining[name] {
			d.add(managedFields, FieldChange{Added: true}, nil, name)
		}
	}
}

// managersOf returns the fields of each field manager, by its name with the subresource, and with Update if it does not apply.
func managersOf(o *unstructured.Unstructured) map[string]*fieldpath.Set {
	out := map[string]*fieldpath.Set{}
	for _, e := range o.GetManagedFields() {
		name, fields := e.Manager, ownership.Decode(e)
		if e.Operation == metav1.ManagedFieldsOperationUpdate {
			name += " (Update)"
		}
		if e.Subresource != "" {
			name += " on " + e.Subresource
		}
		if known := out[name]; known != nil {
			fields = fields.Union(known) // entries of two API versions
		}
		out[name] = fields
	}
	return out
}

// recorded returns the object in the form in which its records are compared: owners by kind and name, conditions by type
// with status and reason, and each other field of the status as a whole.
func recorded(o *unstructured.Unstructured) map[string]any {
	out, metadata, status := maps.Clone(o.Object), map[string]any{}, map[string]any{}
	owners, conditions := map[string]any{}, map[string]any{}
	delete(out, "apiVersion")
	for _, field := range []string{"labels", "annotations"} {
		metadata[field], _, _ = unstructured.NestedMap(o.Object, "metadata", field)
	}
	for _, field := range []string{"generateName", "deletionTimestamp", "finalizers"} {
		if value, found, _ := unstructured.NestedFieldNoCopy(o.Object, "metadata", field); found {
			metadata[field] = value
		}
	}
	references, _, _ := unstructured.NestedSlice(o.Object, "metadata", "ownerReferences")
	for _, item := range references {
		ref, _ := item.(map[string]any)
		owners[fmt.Sprintf("%v/%v", ref["kind"], ref["name"])] = ref
		delete(ref, "kind")
		delete(ref, "name")
	}
	all, _, _ := unstructured.NestedMap(o.Object, "status")
	for field, value := range all {
		status[field] = string(encode(value))
	}
	for _, c := range condition.Read(o) {
		conditions[c.Type] = strings.TrimSuffix(fmt.Sprintf("%s (%s)", c.Status, c.Reason), " ()")
	}
	metadata["ownerReferences"], status["conditions"] = owners, conditions
	out["metadata"], out["status"] = metadata, status
	return out
}
