// Package plan decides. Given what an instance wants (Desired) and what is
// known of its world (Facts), Compute says for each node what to do and why, and
// Teardown says the same for an instance that goes. Nothing here acts.
//
// Pure: it decides from values alone.
package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Facts is what has been observed of one instance's world. The objects are
// shared with caches and must not be changed.
type Facts struct {
	// Instance is the instance as last seen.
	Instance *unstructured.Unstructured
	// Owned holds the instance's own objects by the node that made them; more
	// than one while a node's object changes its name. Under the empty id are
	// those that no node has made.
	Owned map[string][]*unstructured.Unstructured
	// External holds what externalRef nodes name, once it has been looked for.
	External map[Need]Lookup
	// UnreadableOwned holds the kinds whose own objects can't be read now, and why. What
	// an externalRef names is looked for apart, with its own luck.
	UnreadableOwned map[schema.GroupVersionKind]Unreadable
	// UnreadableKinds is why something else that was looked at can't be read now.
	UnreadableKinds []Unreadable
	// Problems holds what stood in the way of a node's last write, by node.
	Problems map[string]Problem
	// Waits tells since when a node has been waiting for a thing.
	Waits map[WaitKey]time.Time
	// Now is the time of this pass.
	Now time.Time
}

// Need names an object that somebody else keeps and that must be read before a
// node can be rendered, or several.
type Need struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
	// Several says that all objects are meant that the Selector matches, by their
	// labels, in the namespace or, if that is empty, in all.
	Several  bool
	Selector string
}

// Lookup is what came of looking for an object of somebody else's: the object, nil
// where there is none, or why that can't be told; or for several of them.
type Lookup struct {
	Object     *unstructured.Unstructured
	Objects    []*unstructured.Unstructured
	Unreadable *Unreadable
}

// Unreadable is why objects can't be read now, and since when.
type Unreadable struct {
	Problem
	Since time.Time
}

// Problem is a reason with its explanation.
type Problem struct {
	Reason  Reason
	Message string
}

// WaitKey names one wait: which node, for what.
type WaitKey struct {
	Node string
	On   string
}

// IsUnreadable says whether own objects of a kind, in whatever version, can't be read now.
func (f Facts) IsUnreadable(gk schema.GroupKind) bool {
	_, unread := f.UnreadableKind(gk.WithVersion(""))
	return unread
}

// UnreadableKind is why objects of a kind can't be read now. Those of a kind that was written in
// another version before are read in one that the server prefers.
func (f Facts) UnreadableKind(gvk schema.GroupVersionKind) (Unreadable, bool) {
	if blind, ok := f.UnreadableOwned[gvk]; ok {
		return blind, true
	}
	for other, blind := range f.UnreadableOwned {
		if other.GroupKind() == gvk.GroupKind() {
			return blind, true
		}
	}
	return Unreadable{}, false
}

// Object returns the node's object of this kind, in this version, and name.
//
// An object that somebody labelled by hand, so that the instance adopts it, is no
// node's yet: the node that renders its name finds it.
func (f Facts) Object(node string, kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	for _, id := range [...]string{node, ""} {
		for _, o := range f.Owned[id] {
			if o.GroupVersionKind() == kind && o.GetNamespace() == namespace && o.GetName() == name {
				return o
			}
		}
	}
	return nil
}

// SoleObject returns the node's object of a kind, in this version, whatever its name,
// unless there are several: then the name decides, once it is known.
func (f Facts) SoleObject(node string, kind schema.GroupVersionKind) *unstructured.Unstructured {
	var found *unstructured.Unstructured
	for _, o := range f.Owned[node] {
		if o.GroupVersionKind() != kind {
			continue
		}
		if found != nil {
			return nil
		}
		found = o
	}
	return found
}

// InitialReadTimeout is for how long to wait for first reads before telling anybody: as
// long as one of them has been going on for less than a while. 0 or less is not
// at all.
func (f Facts) InitialReadTimeout(now time.Time, while time.Duration) time.Duration {
	var left time.Duration
	ask := func(b Unreadable) {
		if b.Reason == Syncing {
			left = max(left, while-now.Sub(b.Since))
		}
	}
	for _, blind := range f.UnreadableOwned {
		ask(blind)
	}
	for _, blind := range f.UnreadableKinds {
		ask(blind)
	}
	for _, look := range f.External {
		if look.Unreadable != nil {
			ask(*look.Unreadable)
		}
	}
	return left
}
