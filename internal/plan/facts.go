// Package plan decides. Given what an instance wants (Desired) and what is
// known of its world (Facts), Compute says for each node what to do and why, and
// Teardown says the same for an instance that goes. Nothing here acts.
package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
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
	// External holds what externalRef nodes name, once it has been looked for;
	// a nil object was looked for and isn't there.
	External map[Need]*unstructured.Unstructured
	// Kinds holds the kinds that can't be read now, and why.
	Kinds map[schema.GroupVersionKind]Problem
	// Problems holds what stood in the way of a node's last write, by node.
	Problems map[string]Problem
	// Waits tells since when a node has been waiting for a thing.
	Waits map[WaitKey]time.Time
	// Now is the time of this pass.
	Now time.Time
}

// Need names an object that somebody else keeps and that must be read before a
// node can be rendered.
type Need struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
}

// Problem is a reason with its explanation.
type Problem struct {
	Reason  Reason
	Message string
	// Holder is the object of somebody else's that is in the way, if one is.
	Holder *object.Key
}

// WaitKey names one wait: which node, for what.
type WaitKey struct {
	Node string
	On   string
}

// Object returns the node's object of the given key; without a name in the key,
// the only one of its kind that there is.
//
// An object that somebody labelled by hand, so that the instance adopts it, is no
// node's yet: the node that renders its name finds it.
func (f Facts) Object(node string, key object.Key) *unstructured.Unstructured {
	if key.Name == "" {
		return f.only(node, key.GroupKind())
	}
	for _, id := range [...]string{node, ""} {
		for _, o := range f.Owned[id] {
			if object.KeyOf(o) == key {
				return o
			}
		}
	}
	return nil
}

// only returns the node's object of a kind, unless there are several: then the
// name decides, once it is known.
func (f Facts) only(node string, kind schema.GroupKind) *unstructured.Unstructured {
	var found *unstructured.Unstructured
	for _, o := range f.Owned[node] {
		if o.GroupVersionKind().GroupKind() != kind {
			continue
		}
		if found != nil {
			return nil
		}
		found = o
	}
	return found
}
