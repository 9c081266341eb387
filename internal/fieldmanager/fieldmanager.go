// Package fieldmanager folds the field managers of the engines that an object was made by
// before into those of this program.
//
// Server-side apply removes a field that an applier wants no longer only if no other
// manager owns it. A former engine writes nothing any more, but what it owns stays owned:
// so a field that both have applied would stay on the object for ever. Folding gives its
// fields to the manager of this program that writes them now.
package fieldmanager

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// The managers of former engines. Those of a status are not among them: a status is
// written as a whole, so that nothing in it outlives what it tells of.
const (
	// composedPrefix begins the name by which Crossplane applies the objects that a
	// composite consists of; the rest of it is a digest of the composite's name.
	composedPrefix = "apiextensions.crossplane.io/composed"
	// claimManager applies the composite of a claim.
	claimManager = "apiextensions.crossplane.io/claim"
	// compositeManager applies what a composite refers to.
	compositeManager = "apiextensions.crossplane.io/composite"
	// crossplaneManager and kroManager are what the engines are called where they don't
	// apply, or say no name.
	crossplaneManager = "crossplane"
	kroManager        = "kro"
	// labellerManager applies kro's labels and its finalizer on an instance.
	labellerManager = "kro.run/labeller"
)

// IsFormer says whether an entry of managed fields, by its manager, operation and
// subresource, is one of a former engine that is to be folded.
func IsFormer(manager, operation, subresource string) bool {
	if subresource != "" {
		return false
	}
	switch metav1.ManagedFieldsOperationType(operation) {
	case metav1.ManagedFieldsOperationApply:
		return manager == claimManager || manager == compositeManager || manager == labellerManager || isComposer(manager)
	case metav1.ManagedFieldsOperationUpdate:
		return manager == crossplaneManager || manager == kroManager
	}
	return false
}

func isComposer(manager string) bool {
	return manager == composedPrefix || strings.HasPrefix(manager, composedPrefix+"/")
}

// IsDue says whether an object has managed fields to fold. It is cheap: every pass asks.
func IsDue(o *unstructured.Unstructured) bool {
	metadata, _ := o.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		manager, _ := entry["manager"].(string)
		operation, _ := entry["operation"].(string)
		subresource, _ := entry["subresource"].(string)
		if IsFormer(manager, operation, subresource) {
			return true
		}
	}
	return false
}

// Fold is what the managed fields of an object are to be: without entries of former
// engines, whose fields this program's managers own instead. Changed says whether there
// were any. The object isn't changed.
func Fold(o *unstructured.Unstructured) (entries []metav1.ManagedFieldsEntry, changed bool) {
	if !IsDue(o) {
		return o.GetManagedFields(), false
	}
	var folding folder
	var former []metav1.ManagedFieldsEntry
	all := o.GetManagedFields()
	for _, entry := range all {
		if IsFormer(entry.Manager, string(entry.Operation), entry.Subresource) {
			former = append(former, entry)
		} else {
			folding.keep(entry)
		}
	}
	role := roleOf(o, all)
	for _, entry := range former {
		folding.give(entry, role)
	}
	return folding.entries, true
}

// Applied is the set of fields, in the format of FieldsV1, that a manager has applied to
// an object or will have once what is due is folded; nil for none.
func Applied(o *unstructured.Unstructured, manager string) map[string]any {
	entries, _ := Fold(o)
	for _, entry := range entries {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" {
			return fieldsOf(entry)
		}
	}
	return nil
}

// folder collects entries.
type folder struct{ entries []metav1.ManagedFieldsEntry }

func (f *folder) keep(entry metav1.ManagedFieldsEntry) { f.entries = append(f.entries, entry) }

// give folds an entry of a former engine.
func (f *folder) give(entry metav1.ManagedFieldsEntry, r role) {
	fields := fieldsOf(entry)
	switch {
	case entry.Manager == claimManager, isComposer(entry.Manager):
		f.add(entry, v1alpha1.ChildManager, metav1.ManagedFieldsOperationApply, fields)
	case entry.Manager == labellerManager:
		f.add(entry, v1alpha1.InstanceManager, metav1.ManagedFieldsOperationApply, fields)
	case entry.Manager == compositeManager:
		f.add(entry, v1alpha1.InstanceManager, metav1.ManagedFieldsOperationUpdate, fields)
	default:
		own, wanted := r.split(fields)
		f.add(entry, v1alpha1.InstanceManager, metav1.ManagedFieldsOperationUpdate, own)
		f.add(entry, v1alpha1.ChildManager, metav1.ManagedFieldsOperationApply, wanted)
	}
}

// add has a manager of this program own further fields. The server knows an applier's
// entry by its name alone, and other entries by their version too.
func (f *folder) add(from metav1.ManagedFieldsEntry, manager string, operation metav1.ManagedFieldsOperationType, fields map[string]any) {
	if len(fields) == 0 {
		return
	}
	into := -1
	for i, e := range f.entries {
		same := e.Manager == manager && e.Operation == operation && e.Subresource == ""
		if same && (operation == metav1.ManagedFieldsOperationApply || e.APIVersion == from.APIVersion) {
			into = i
		}
	}
	if into < 0 {
		from.Manager, from.Operation, from.FieldsV1 = manager, operation, encoded(fields)
		f.keep(from)
		return
	}
	e := &f.entries[into]
	e.FieldsV1 = encoded(union(fieldsOf(*e), fields))
	if from.Time != nil && (e.Time == nil || e.Time.Before(from.Time)) {
		e.Time = from.Time
	}
}

// fieldsOf decodes the fields of an entry. What can't be decoded owns nothing.
func fieldsOf(entry metav1.ManagedFieldsEntry) map[string]any {
	if entry.FieldsV1 == nil {
		return nil
	}
	var fields map[string]any
	if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return nil
	}
	return fields
}

func encoded(fields map[string]any) *metav1.FieldsV1 {
	raw, err := json.Marshal(fields)
	if err != nil {
		raw = []byte("{}") // maps of maps can be encoded
	}
	return &metav1.FieldsV1{Raw: raw}
}

// union is every field of both sets. A set that is empty at a field owns that field alone,
// which is written as "." where the other owns more below it.
func union(a, b map[string]any) map[string]any {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	out := make(map[string]any, len(a)+len(b))
	for key, below := range a {
		out[key] = below
	}
	for key, below := range b {
		other, both := out[key]
		if !both {
			out[key] = below
			continue
		}
		x, _ := other.(map[string]any)
		y, _ := below.(map[string]any)
		joined := union(x, y)
		if len(joined) > 0 && (len(x) == 0 || len(y) == 0) {
			joined = union(joined, map[string]any{".": map[string]any{}})
		}
		out[key] = joined
	}
	return out
}
