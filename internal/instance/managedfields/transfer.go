// Package managedfields transfers the ownership of fields from the field managers of former engines to the managers of
// this program, and back. See docs/design/0013-composites-and-functions.md.
//
// Server-side apply removes a field that an applier no longer applies only if no other manager owns it. A former engine
// doesn't write any more but still owns its fields: a field that both have applied would stay on the object for ever.
// So its fields are transferred to the manager of this program that writes them now.
//
// Pure: it decides from values alone.
package managedfields

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
	"github.com/espalier-dev/espalier/internal/object"
)

// Field managers of former engines. Managers of a status are not among them: a status is written as a whole, so no
// field outlives its source.
const (
	// composedPrefix is the prefix of the manager that Crossplane applies composed resources as; a digest of the
	// composite's name follows.
	composedPrefix = "apiextensions.crossplane.io/composed"
	// claimManager applies the composite of a claim.
	claimManager = "apiextensions.crossplane.io/claim"
	// compositeManager applies the references of a composite.
	compositeManager = "apiextensions.crossplane.io/composite"
	// crossplaneManager and kroManager are the managers of the engines where they update, or set
	// no manager.
	crossplaneManager = "crossplane"
	kroManager        = "kro"
	// labellerManager applies kro's labels and its finalizer on an instance.
	labellerManager = "kro.run/labeller"
)

// Selector selects managed fields entries by manager, operation and subresource.
type Selector func(manager, operation, subresource string) bool

// IsForeign reports whether the fields of an entry of a child are to be transferred: it is of a former engine, or of a
// Graph of kro's.
func IsForeign(manager, operation, subresource string) bool {
	return strings.HasPrefix(manager, v1alpha1.GraphManagerPrefix) || IsFormer(manager, operation, subresource)
}

// IsFormer reports whether the fields of an entry of an instance are to be transferred from a former engine. The entry of
// a Graph that has the instance as its object proves that, and is the Graph's to transfer.
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

// NeedsTransfer reports whether selected managers own fields of an object, or this program's manager the stringData of a
// Secret, as former versions did. It is cheap: every reconcile calls it.
func NeedsTransfer(o *unstructured.Unstructured, from Selector) bool {
	secret := object.IsSecret(o)
	for entry := range ownership.Entries(o) {
		if from(entry.Manager, string(entry.Operation), entry.Subresource) || secret && ownsStringData(entry) {
			return true
		}
	}
	return false
}

// Transfer returns the managed fields of an object without the selected entries: this program's managers own their
// fields instead, and own data instead of stringData in a Secret. Changed reports whether there were any. The object
// isn't changed.
func (from Selector) Transfer(o *unstructured.Unstructured) (entries []metav1.ManagedFieldsEntry, changed bool) {
	if !NeedsTransfer(o, from) {
		return o.GetManagedFields(), false
	}
	var next, former entryList
	all := o.GetManagedFields()
	for _, entry := range all {
		if from(entry.Manager, string(entry.Operation), entry.Subresource) {
			former = append(former, entry)
		} else {
			next = append(next, entry)
		}
	}
	role := roleOf(o, all)
	for _, entry := range former {
		next.transfer(entry, role)
	}
	if object.IsSecret(o) {
		next.storeStringData()
	}
	return next, true
}

// TakeSpec returns the managed fields of an object as if the manager had applied all of its spec. Changed reports whether
// another manager owns any of it. The object isn't changed.
func TakeSpec(o *unstructured.Unstructured, manager string) (entries []metav1.ManagedFieldsEntry, changed bool) {
	var next entryList
	for _, entry := range o.GetManagedFields() {
		rest, spec := ownership.Split(ownership.Decode(entry), ownership.Path("spec"))
		if isTakers := entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply; entry.Subresource != "" || isTakers || spec.Empty() {
			next.add(entry, entry.Manager, entry.Operation, ownership.Decode(entry))
			continue
		}
		changed = true
		next.add(entry, entry.Manager, entry.Operation, rest)
		next.add(entry, manager, metav1.ManagedFieldsOperationApply, spec)
	}
	return next, changed
}

// Applied are the fields that a manager has applied to an object, including those of former engines that will be
// transferred to it.
func Applied(o *unstructured.Unstructured, manager string) *fieldpath.Set {
	if !NeedsTransfer(o, IsForeign) {
		return ownership.AppliedFields(o, manager)
	}
	entries, _ := Selector(IsForeign).Transfer(o)
	for _, entry := range entries {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" {
			return ownership.Decode(entry)
		}
	}
	return &fieldpath.Set{}
}

type entryList []metav1.ManagedFieldsEntry

// The entry is of a former engine; its fields go to this program's managers.
func (l *entryList) transfer(entry metav1.ManagedFieldsEntry, r role) {
	fields := ownership.Decode(entry)
	switch {
	case entry.Manager == claimManager, isComposer(entry.Manager), strings.HasPrefix(entry.Manager, v1alpha1.GraphManagerPrefix):
		l.add(entry, v1alpha1.ChildManager, metav1.ManagedFieldsOperationApply, fields)
	case entry.Manager == labellerManager:
		l.add(entry, v1alpha1.InstanceManager, metav1.ManagedFieldsOperationApply, fields)
	case entry.Manager == compositeManager:
		l.add(entry, v1alpha1.InstanceManager, metav1.ManagedFieldsOperationUpdate, fields)
	default:
		own, wanted := r.split(fields)
		l.add(entry, v1alpha1.InstanceManager, metav1.ManagedFieldsOperationUpdate, own)
		l.add(entry, v1alpha1.ChildManager, metav1.ManagedFieldsOperationApply, wanted)
	}
}

// add makes a manager own further fields, which come from an entry of another. The server
// identifies an applier's entry by its name and subresource, and other entries by their version
// too.
func (l *entryList) add(from metav1.ManagedFieldsEntry, manager string, operation metav1.ManagedFieldsOperationType, fields *fieldpath.Set) {
	if fields.Empty() {
		return
	}
	for i := range *l {
		e := &(*l)[i]
		same := e.Manager == manager && e.Operation == operation && e.Subresource == from.Subresource
		if !same || operation != metav1.ManagedFieldsOperationApply && e.APIVersion != from.APIVersion {
			continue
		}
		e.FieldsV1 = ownership.Encode(ownership.Decode(*e).Union(fields))
		if from.Time != nil && (e.Time == nil || e.Time.Before(from.Time)) {
			e.Time = from.Time
		}
		return
	}
	from.Manager, from.Operation, from.FieldsV1 = manager, operation, ownership.Encode(fields)
	*l = append(*l, from)
}
