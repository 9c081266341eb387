// Package plan computes what to do for an instance. Given what the instance should consist of
// (Desired) and what has been observed (Facts), Compute returns an action with its reason for
// each node. Teardown does the same for an instance that is being deleted, and Prune for
// objects that are no longer desired.
// See docs/design/0002-drift-by-field-ownership.md, 0003-waiting-readiness-and-statuses.md and 0008-deletion.md.
//
// Pure: it decides from values alone.
package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// Facts is what has been observed in the cluster for one instance. The objects are shared
// with caches and must not be changed.
type Facts struct {
	// Instance is the instance as last seen.
	Instance *unstructured.Unstructured
	// Defaults are the definition's settings for the deletion of its instances.
	Defaults inventory.Defaults
	// Owned holds the instance's own objects by the node that created them; more than one
	// while a node's object changes its name.
	Owned map[string][]*unstructured.Unstructured
	// External holds what composing needs of the cluster, once it has been looked up: see Desired.Needs.
	External map[Need]Lookup
	// UnreadableOwned holds the kinds of own objects that can't be read now, and why. Objects that an externalRef names
	// are read independently of these.
	UnreadableOwned map[schema.GroupVersionKind]Unreadable
	// Problems holds what made a node's last write fail, by node.
	Problems map[string]Problem
	// Waits holds when each wait began.
	Waits map[WaitKey]time.Time
	// Limits bound what the instance may consist of, and what composing it may compute. Cost is
	// the CEL cost of earlier compositions in this reconcile.
	Limits Limits
	Cost   uint64
	// Now is the time of this reconcile. Round counts its rounds of observing and acting, from 0.
	Now   time.Time
	Round int
}

// Need names a foreign object, or several, or the schema or the scope of a kind, that must be read before a node can be
// rendered.
type Need struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
	// Multiple selects all objects with labels that match Selector, in the namespace or, if that is empty, in all
	// namespaces.
	Multiple bool
	Selector string
	// Live asks for the object as it is on the API server, where a cache that is behind would decide wrongly.
	Live bool
	// Schema asks for the kind's schema, and Scope whether its objects are in namespaces; neither asks for an object.
	Schema, Scope bool
}

// Lookup is the result of reading a Need: the object, nil if there is none; or the objects; or the schema, nil for a kind
// that has none or is not served; or the scope; or why they can't be read. The scope of a kind that is not served can't.
type Lookup struct {
	Object     *unstructured.Unstructured
	Objects    []*unstructured.Unstructured
	Schema     *spec.Schema
	Namespaced bool
	Unreadable *Unreadable
}

// Unreadable is why objects can't be read now, and the time when that began.
type Unreadable struct {
	Problem
	Since time.Time
}

// Problem is a reason with its explanation.
type Problem struct {
	Reason  Reason
	Message string
}

// WaitKey identifies a wait: the node, and what it waits for.
type WaitKey struct {
	Node string
	On   string
}

// IsUnreadable reports whether own objects of a kind can't be read now, in any version.
func (f Facts) IsUnreadable(gk schema.GroupKind) bool {
	_, unreadable := f.UnreadableKind(gk.WithVersion(""))
	return unreadable
}

// UnreadableKind returns why own objects of a kind can't be read now. Any version of the kind
// counts: objects that were written in another version before are read in the version that
// the server prefers.
func (f Facts) UnreadableKind(gvk schema.GroupVersionKind) (Unreadable, bool) {
	if unreadable, ok := f.UnreadableOwned[gvk]; ok {
		return unreadable, true
	}
	for other, unreadable := range f.UnreadableOwned {
		if other.GroupKind() == gvk.GroupKind() {
			return unreadable, true
		}
	}
	return Unreadable{}, false
}

// Object returns the node's object of this kind, in this version, and name; nil if there is
// none.
func (f Facts) Object(node string, kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	for _, o := range f.Owned[node] {
		if o.GroupVersionKind() == kind && o.GetNamespace() == namespace && o.GetName() == name {
			return o
		}
	}
	return nil
}

// Objects returns the node's objects of this kind, in this version, by their names.
func (f Facts) Objects(node string, kind schema.GroupVersionKind) map[types.NamespacedName]*unstructured.Unstructured {
	owned := f.Owned[node]
	out := make(map[types.NamespacedName]*unstructured.Unstructured, len(owned))
	for _, o := range owned {
		name := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
		if _, known := out[name]; !known && o.GroupVersionKind() == kind {
			out[name] = o
		}
	}
	return out
}

// SoleObject returns the node's object of a kind, in this version, with any name. If there are
// several it returns nil: then the name decides, once it is known.
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

// InitialReadTimeout is how long to wait for first reads before they are reported, given how
// long each may take. It is 0 or less if none is to be waited for.
func (f Facts) InitialReadTimeout(now time.Time, limit time.Duration) time.Duration {
	var left time.Duration
	add := func(u Unreadable) {
		if u.Reason == Syncing {
			left = max(left, limit-now.Sub(u.Since))
		}
	}
	for _, unreadable := range f.UnreadableOwned {
		add(unreadable)
	}
	for _, lookup := range f.External {
		if lookup.Unreadable != nil {
			add(*lookup.Unreadable)
		}
	}
	return left
}
