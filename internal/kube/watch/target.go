package watch

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Selection is the part of a kind that one informer holds. It is comparable:
// equal selections of a kind share an informer. The zero Selection is the whole
// kind.
type Selection struct {
	managed   bool
	namespace string
	name      string
	labels    string
}

// All selects every object of a kind: what a kind that is served as a primary
// needs.
func All() Selection { return Selection{} }

// Managed selects the objects that carry the hub's Config.Managed label: the
// children of all instances.
func Managed() Selection { return Selection{managed: true} }

// One selects a single object, which costs one cached object whatever the size
// of its kind. The namespace is empty for cluster-scoped kinds.
func One(namespace, name string) Selection { return Selection{namespace: namespace, name: name} }

// Labelled selects by labels, in one namespace or in all: what a reference to
// other people's objects by selector needs.
func Labelled(namespace string, selector labels.Selector) Selection {
	return Selection{namespace: namespace, labels: selector.String()}
}

// String names the selection for people and metrics: all, managed,
// one prod/main, labelled prod app=db.
func (s Selection) String() string {
	switch {
	case s.managed:
		return "managed"
	case s.name != "":
		return "one " + join(s.namespace, s.name)
	case s.namespace != "" || s.labels != "":
		return "labelled " + join(s.namespace, s.labels)
	default:
		return "all"
	}
}

// class is the selection without its particulars, bounded in number and so fit
// for a metric's label.
func (s Selection) class() string {
	switch {
	case s.managed:
		return "managed"
	case s.name != "":
		return "one"
	case s.namespace != "" || s.labels != "":
		return "labelled"
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

// Target is one interest of a subscriber: which objects of which kind wake it,
// and which selection holds them. It is comparable; make it with Child,
// ChildrenOf, Object or Matching.
type Target struct {
	kind      schema.GroupVersionKind
	selection Selection
	route     route
}

// Child is the managed object with this name, whether it exists yet or not.
func Child(kind schema.GroupVersionKind, namespace, name string) Target {
	return Target{kind, Managed(), route{by: byName, namespace: namespace, name: name}}
}

// ChildrenOf is every managed object whose Config.OwnerLabel has this value.
func ChildrenOf(kind schema.GroupVersionKind, owner string) Target {
	return Target{kind, Managed(), route{by: byOwner, owner: owner}}
}

// Object is a single object that somebody else manages: an external reference,
// or a foreign object that holds a name we want.
func Object(kind schema.GroupVersionKind, namespace, name string) Target {
	return Target{kind, One(namespace, name), route{by: byName, namespace: namespace, name: name}}
}

// Matching is every object, managed or not, that the selector matches; an empty
// namespace means all of them.
func Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) Target {
	if labels.MatchesNothing(selector) {
		// Written as a string, a selector of nothing would read as one of everything.
		return Target{kind, One(namespace, nobody), route{by: byName, namespace: namespace, name: nobody}}
	}
	return Target{
		kind, Labelled(namespace, selector),
		route{by: byLabels, namespace: namespace, labels: selector.String()},
	}
}

// nobody is a name that no object can have.
const nobody = "-"

// Kind returns the kind that the target watches.
func (t Target) Kind() schema.GroupVersionKind { return t.kind }

// Selection returns the part of the kind that the target needs.
func (t Target) Selection() Selection { return t.selection }
