package managedfields

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// A Secret that is applied with stringData is stored with data: the API server records that the applier owns
// stringData, and nobody owns the data. This program applies data instead, so it owns what is stored. Transfer makes
// the stringData of former engines, and of former versions of this program, data; Restore makes it stringData again.
const (
	dataField       = "data"
	stringDataField = "stringData"
)

func isOwn(manager string, operation metav1.ManagedFieldsOperationType, subresource string) bool {
	return manager == v1alpha1.ChildManager && operation == metav1.ManagedFieldsOperationApply && subresource == ""
}

func ownsStringData(entry ownership.Entry) bool {
	return isOwn(entry.Manager, entry.Operation, entry.Subresource) && entry.HasField(stringDataField)
}

// Stored returns the fields that a manager owns of an object as they are stored: stringData of a Secret
// count as data.
func Stored(o *unstructured.Unstructured, fields *fieldpath.Set) *fieldpath.Set {
	if !object.IsSecret(o) {
		return fields
	}
	return moved(fields, stringDataField, dataField)
}

// What this program's manager owns of a Secret's stringData becomes data.
func (l entryList) storeStringData() {
	for i, entry := range l {
		if isOwn(entry.Manager, entry.Operation, entry.Subresource) {
			l[i].FieldsV1 = ownership.Encode(moved(ownership.Decode(entry), stringDataField, dataField))
		}
	}
}

// restoreStringData returns an entry with stringData for the data of a Secret that was made of stringData alone.
// Restored reports whether there was any. It is unknown which key of another Secret was in stringData: data stays
// owned, and the engine's next apply turns that into what it applies, without a change of the values.
func restoreStringData(o *unstructured.Unstructured, entry metav1.ManagedFieldsEntry) (out metav1.ManagedFieldsEntry, restored bool) {
	if !isOwn(entry.Manager, entry.Operation, entry.Subresource) || !object.IsSecret(o) || o.GetAnnotations()[v1alpha1.StringDataAnnotation] == "" {
		return entry, false
	}
	had := ownership.Decode(entry)
	has := moved(had, dataField, stringDataField)
	if has.Equals(had) {
		return entry, false
	}
	entry.FieldsV1 = ownership.Encode(has)
	return entry, true
}

func moved(set *fieldpath.Set, from, to string) *fieldpath.Set {
	below := set.WithPrefix(fieldpath.FieldNameElement(from))
	rest, cut := ownership.Split(set, ownership.Path(from))
	if cut.Empty() {
		return set
	}
	if set.Members.Has(fieldpath.FieldNameElement(from)) {
		rest.Insert(ownership.Path(to))
	}
	below.Iterate(func(p fieldpath.Path) { rest.Insert(append(ownership.Path(to), p...)) })
	return rest
}
