package watch

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Selection is the part of a kind that one actor watches. It is comparable: equal
// selections of a kind share an actor. The zero Selection is the whole kind.
type Selection struct {
	managed   bool
	namespace string
	name      string
	labels    string
}

// All selects every object of a kind, as a controller of the kind needs.
func All() Selection { return Selection{} }

// Managed selects the objects that have the label Config.ManagedLabel: the children of all
// instances.
func Managed() Selection { return Selection{managed: true} }

// ManagedIn is Managed for one namespace. An account that is not allowed to read a kind in all namespaces needs it.
func ManagedIn(namespace string) Selection { return Selection{managed: true, namespace: namespace} }

// One selects a single object, which costs one cached object whatever the size of its kind.
// The namespace is empty for cluster-scoped kinds.
func One(namespace, name string) Selection { return Selection{namespace: namespace, name: name} }

// InNamespace selects every object of a namespace. It serves the watches of single objects there
// once there are many of them.
func InNamespace(namespace string) Selection { return Selection{namespace: namespace} }

// Labelled selects by labels, in one namespace or in all, as a reference by selector to
// unmanaged objects needs.
func Labelled(namespace string, selector labels.Selector) Selection {
	return Selection{namespace: namespace, labels: selector.String()}
}

func (s Selection) isManagedIn() bool { return s.managed && s.namespace != "" }

// String describes the selection for users and metrics: all, managed, managed prod,
// one prod/main, namespace prod, labelled prod app=db.
func (s Selection) String() string {
	switch {
	case s.isManagedIn():
		return "managed " + s.namespace
	case s.managed:
		return "managed"
	case s.name != "":
		return "one " + join(s.namespace, s.name)
	case s.labels != "":
		return "labelled " + join(s.namespace, s.labels)
	case s.namespace != "":
		return "namespace " + s.namespace
	default:
		return "all"
	}
}

// It contains no names, and so is fit for a metric's label.
func (s Selection) class() string {
	switch {
	case s.managed:
		return "managed"
	case s.name != "":
		return "one"
	case s.labels != "":
		return "labelled"
	case s.namespace != "":
		return "namespace"
	default:
		return "all"
	}
}

func join(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Target is one interest of a subscriber: the objects of a kind that wake it, and the
// selection that contains them. It is comparable. Child, ChildrenOf, ChildrenIn, Object and
// Matching create it.
type Target struct {
	kind      schema.GroupVersionKind
	selection Selection
	route     route
}

// Child targets the managed object with this name, whether it exists yet or not.
func Child(kind schema.GroupVersionKind, namespace, name string) Target {
	return Target{kind, Managed(), route{by: byName, namespace: namespace, name: name}}
}

// ChildrenOf targets every managed object with this value of Config.OwnerLabel.
func ChildrenOf(kind schema.GroupVersionKind, owner string) Target {
	return Target{kind, Managed(), route{by: byOwner, owner: owner}}
}

// ChildrenIn is ChildrenOf for one namespace. Of a kind that is cluster-scoped it targets every
// object.
func ChildrenIn(kind schema.GroupVersionKind, namespace, owner string) Target {
	return Target{kind, ManagedIn(namespace), route{by: byOwner, owner: owner}}
}

// Object targets a single unmanaged object: an external reference, or a foreign object that
// has the name of a desired child.
func Object(kind schema.GroupVersionKind, namespace, name string) Target {
	return Target{kind, One(namespace, name), route{by: byName, namespace: namespace, name: name}}
}

// Matching targets every object that the selector matches, managed or not; an empty
// namespace means all.
func Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) Target {
	if labels.MatchesNothing(selector) {
		// As a string, a selector that matches nothing reads as one that matches everything.
		return Target{kind, One(namespace, impossibleName), route{by: byName, namespace: namespace, name: impossibleName}}
	}
	return Target{
		kind, Labelled(namespace, selector),
		route{by: byLabels, namespace: namespace, labels: selector.String()},
	}
}

const impossibleName = "-"

// Kind is the kind that the target watches.
func (t Target) Kind() schema.GroupVersionKind { return t.kind }

// Selection is the part of the kind that the target needs.
func (t Target) Selection() Selection { return t.selection }
