package archive

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// Parent is the instance that an instance is a part of; the zero Parent is none.
type Parent struct{ object.Key }

// ParentOf is the instance that an object is a part of, as it tells itself.
func ParentOf(o *unstructured.Unstructured) Parent {
	key, _, ok := inventory.InstanceOf(o)
	if !ok {
		key, _, _ = inventory.ClaimedBy(o) // another implementation of the dialect has made it
	}
	return Parent{key}
}

// Part are those of the instances that are exported: those of the chosen namespaces, and
// what these are composed of.
func (s Selection) Part(instances map[object.Key]Parent) map[object.Key]Parent {
	out := maps.Clone(instances)
	maps.DeleteFunc(out, func(key object.Key, _ Parent) bool {
		return !above(key, instances, func(k object.Key) bool { return s.In(k.Namespace) })
	})
	return out
}

// ComposedBy says whether an instance is of one of these kinds, or a part of one that is,
// however deep.
func ComposedBy(key object.Key, kinds map[schema.GroupKind]bool, instances map[object.Key]Parent) bool {
	return above(key, instances, func(k object.Key) bool { return kinds[k.GroupKind()] })
}

// above says whether something is so of an instance or of one that it is a part of.
func above(key object.Key, instances map[object.Key]Parent, so func(object.Key) bool) bool {
	for range len(instances) + 1 { // nobody is a part of himself, but for what labels may say
		parent, known := instances[key]
		switch {
		case !known:
			return false
		case so(key):
			return true
		}
		key = parent.Key
	}
	return false
}

// TakesUsage says whether a usage is exported: of a part of what there is, those that are
// a part of it or about it.
func (s Selection) TakesUsage(o *unstructured.Unstructured, instances map[object.Key]Parent, has func(object.Key) bool) bool {
	if len(s.Definitions) == 0 && s.In(o.GetNamespace()) {
		return true
	}
	if _, taken := instances[ParentOf(o).Key]; taken {
		return true
	}
	u, ok := usage.Read(o)
	at := object.Key{Group: u.Of.Kind.Group, Kind: u.Of.Kind.Kind, Namespace: u.Of.Namespace, Name: u.Of.Name}
	clusterwide := at
	clusterwide.Namespace = ""
	return ok && u.Of.Name != "" && (has(at) || has(clusterwide))
}
