package archive

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// Parent is the instance that another instance is a child of; the zero Parent is none.
type Parent struct{ object.Key }

// ParentOf returns the instance that an object is a child of, by its labels.
func ParentOf(o *unstructured.Unstructured) Parent {
	key, _, ok := inventory.InstanceOf(o)
	if !ok {
		key, _, _ = inventory.ClaimedBy(o) // a composite that Crossplane has created
	}
	return Parent{key}
}

// SelectInstances returns the instances that are exported: those of the selected namespaces, and
// their descendants.
func (s Selection) SelectInstances(instances map[object.Key]Parent) map[object.Key]Parent {
	out := maps.Clone(instances)
	maps.DeleteFunc(out, func(key object.Key, _ Parent) bool {
		return !anyAncestor(key, instances, func(k object.Key) bool { return s.IncludesNamespace(k.Namespace) })
	})
	return out
}

// IsOrHasAncestorOf reports whether an instance or one of its ancestors is of one of the kinds.
func IsOrHasAncestorOf(key object.Key, kinds map[schema.GroupKind]bool, instances map[object.Key]Parent) bool {
	return anyAncestor(key, instances, func(k object.Key) bool { return kinds[k.GroupKind()] })
}

// anyAncestor reports whether the predicate holds for an instance or one of its ancestors.
func anyAncestor(key object.Key, instances map[object.Key]Parent, predicate func(object.Key) bool) bool {
	for range len(instances) + 1 { // bounded, since labels may form a cycle
		parent, known := instances[key]
		switch {
		case !known:
			return false
		case predicate(key):
			return true
		}
		key = parent.Key
	}
	return false
}

// IncludesUsage reports whether a usage is exported. A usage is exported if its namespace is and
// no definitions are selected, or if it is a child of an exported instance, or if the object it is
// of is exported.
func (s Selection) IncludesUsage(o *unstructured.Unstructured, instances map[object.Key]Parent, isExported func(object.Key) bool) bool {
	if len(s.Definitions) == 0 && s.IncludesNamespace(o.GetNamespace()) {
		return true
	}
	if _, selected := instances[ParentOf(o).Key]; selected {
		return true
	}
	u, ok := usage.Read(o)
	at := object.Key{Group: u.Of.Kind.Group, Kind: u.Of.Kind.Kind, Namespace: u.Of.Namespace, Name: u.Of.Name}
	clusterwide := at
	clusterwide.Namespace = ""
	return ok && u.Of.Name != "" && (isExported(at) || isExported(clusterwide))
}
