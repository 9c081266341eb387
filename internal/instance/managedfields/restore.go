package managedfields

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/kube/ownership"
)

// Engine is an engine that objects are handed back to.
type Engine string

// The engines.
const (
	Crossplane Engine = "crossplane"
	KRO        Engine = "kro"
)

// Manager is the field manager that the engine updates objects as.
func (e Engine) Manager() string {
	if e == KRO {
		return kroManager
	}
	return crossplaneManager
}

// connectionType is the type of Secrets with connection details: Crossplane updates them instead
// of applying them, unless a composition composes them.
const connectionType = "connection.crossplane.io/v1alpha1"

// Restore returns the managed fields that let an engine continue to manage the object: fields of this program's
// managers are owned by the engine's. It undoes Transfer. Graph is the manager with which kro applies the objects of the
// Graph that the object is of; empty for other objects. Changed reports whether there was anything to undo. The object isn't
// changed.
//
// Crossplane would leave fields that it no longer applies on an object if another manager owned them too. All but two
// of this program's managers have the names of kro's.
func Restore(o *unstructured.Unstructured, e Engine, graph string) (entries []metav1.ManagedFieldsEntry, changed bool) {
	var next, ours entryList
	for _, entry := range o.GetManagedFields() {
		to := recipients(o, entry, e, graph)
		if to != nil || e == KRO {
			var restored bool
			entry, restored = restoreStringData(o, entry)
			changed = changed || restored
		}
		if to == nil {
			next = append(next, entry)
		} else {
			ours = append(ours, entry)
		}
	}
	for _, entry := range ours {
		next.distribute(entry, recipients(o, entry, e, graph))
	}
	return next, changed || len(ours) > 0
}

// The last recipient gets the rest.
func (l *entryList) distribute(entry metav1.ManagedFieldsEntry, to []recipient) {
	left := ownership.Decode(entry)
	for _, r := range to[:len(to)-1] {
		rest, fields := cutAll(left, r.paths)
		if !r.shared {
			left = rest
		}
		l.add(entry, r.manager, r.operation, fields)
	}
	last := to[len(to)-1]
	l.add(entry, last.manager, last.operation, left)
}

type recipient struct {
	manager   string
	operation metav1.ManagedFieldsOperationType
	paths     []fieldpath.Path
	// shared says that other recipients get these fields too.
	shared bool
}

// recipients are the managers of an engine that get an entry's fields; nil for an entry that
// stays.
func recipients(o *unstructured.Unstructured, entry metav1.ManagedFieldsEntry, e Engine, graph string) []recipient {
	rest := []recipient{{manager: e.Manager(), operation: metav1.ManagedFieldsOperationUpdate}}
	switch {
	case strings.HasPrefix(entry.Manager, ownPrefix):
		return rest
	case e == KRO && graph != "" && entry.Manager == v1alpha1.ChildManager:
		return []recipient{{manager: graph, operation: metav1.ManagedFieldsOperationApply}}
	case e == KRO:
		return kroRecipients(o, entry, rest)
	case entry.Manager == v1alpha1.StatusManager && entry.Subresource == "status" && isComposite(o):
		conditions := recipient{manager: crossplaneManager, operation: metav1.ManagedFieldsOperationUpdate, paths: []fieldpath.Path{
			ownership.Path("status", "conditions"), ownership.Path("status", "connectionDetails"), ownership.Path("status", "claimConditionTypes"),
		}}
		return []recipient{conditions, {manager: compositeManager, operation: metav1.ManagedFieldsOperationApply}}
	case entry.Manager == v1alpha1.StatusManager:
		return rest
	case entry.Manager == v1alpha1.InstanceManager && isComposite(o):
		refs := recipient{manager: compositeManager, operation: metav1.ManagedFieldsOperationApply, paths: []fieldpath.Path{
			ownership.Path("spec", "resourceRefs"), ownership.Path("spec", "crossplane", "resourceRefs"),
		}}
		return append([]recipient{refs}, rest...)
	case entry.Manager == v1alpha1.InstanceManager:
		return rest
	case entry.Manager == v1alpha1.ChildManager && IsOfGraph(o):
		return nil // its parent's engine goes by the same name
	case entry.Manager == v1alpha1.ChildManager:
		return []recipient{{manager: applier(o), operation: operationOf(o)}}
	}
	return nil
}

// kro labels an instance by one manager, and records its inventory by another, which has the same name as ours.
func kroRecipients(o *unstructured.Unstructured, entry metav1.ManagedFieldsEntry, rest []recipient) []recipient {
	switch {
	case entry.Manager == v1alpha1.StatusManager:
		return rest
	case entry.Manager != v1alpha1.InstanceManager:
		return nil
	case !inventory.IsInstance(o), inventory.IsGraph(o):
		return rest
	case entry.Operation != metav1.ManagedFieldsOperationApply || !hasLabels(entry):
		return nil
	}
	shared := []fieldpath.Path{
		annotation(v1alpha1.ApplySetToolingAnnotation), annotation(v1alpha1.ApplySetNamespacesAnnotation),
		label(v1alpha1.ApplySetIDLabel),
	}
	return []recipient{
		{manager: v1alpha1.InstanceManager, operation: metav1.ManagedFieldsOperationApply, paths: shared, shared: true},
		{manager: v1alpha1.InstanceManager, operation: metav1.ManagedFieldsOperationApply, paths: []fieldpath.Path{
			annotation(v1alpha1.ApplySetKindsAnnotation), annotation(v1alpha1.ApplySetHashAnnotation),
		}},
		{manager: labellerManager, operation: metav1.ManagedFieldsOperationApply},
	}
}

func hasLabels(entry metav1.ManagedFieldsEntry) bool {
	return ownership.Owns(ownership.Decode(entry), label(v1alpha1.OwnedLabel))
}

// A composite has composition references and isn't a claim.
func isComposite(o *unstructured.Unstructured) bool {
	for _, path := range [][]string{{"spec", "resourceRefs"}, {"spec", "crossplane"}} {
		if _, found, _ := unstructured.NestedFieldNoCopy(o.Object, path...); found {
			return true
		}
	}
	for _, name := range o.GetFinalizers() {
		if name == compositeFinalizer {
			return true
		}
	}
	return false
}

// ownPrefix is the prefix of the managers of this program that no other engine has.
const ownPrefix = "espalier.dev/"

// compositeFinalizer is Crossplane's finalizer of a composite.
const compositeFinalizer = "composite.apiextensions.crossplane.io"

// Crossplane writes an object that its parent renders as this manager.
func applier(o *unstructured.Unstructured) string {
	switch controller := metav1.GetControllerOfNoCopy(o); {
	case IsConnection(o):
		return crossplaneManager
	case isClaimed(o):
		return claimManager
	case controller == nil:
		return crossplaneManager
	default:
		return ComposedManager(schema.FromAPIVersionAndKind(controller.APIVersion, controller.Kind).GroupKind(), controller.Name)
	}
}

func operationOf(o *unstructured.Unstructured) metav1.ManagedFieldsOperationType {
	if applier(o) == crossplaneManager {
		return metav1.ManagedFieldsOperationUpdate
	}
	return metav1.ManagedFieldsOperationApply
}

func isClaimed(o *unstructured.Unstructured) bool {
	_, _, claimed := inventory.ClaimedBy(o)
	return claimed
}

// IsOfGraph reports whether an object is composed by an instance of a graph.
func IsOfGraph(o *unstructured.Unstructured) bool {
	return o.GetLabels()[v1alpha1.OwnedLabel] != "" && o.GetLabels()[v1alpha1.NodeIDLabel] != ""
}

// IsConnection reports whether an object is the Secret with the connection details of a composite or a claim, which is
// no composed resource.
func IsConnection(o *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(o.Object, "type")
	node := inventory.Node(o)
	return o.GetKind() == "Secret" && kind == connectionType && (node == "" || node == "connection" || node == "crossplane.io/connection-details")
}

// ComposedManager is the manager that Crossplane applies the composed resources of a composite as.
func ComposedManager(kind schema.GroupKind, name string) string {
	sum := sha256.Sum256([]byte(name + kind.String()))
	return composedPrefix + "/" + hex.EncodeToString(sum[:])
}
