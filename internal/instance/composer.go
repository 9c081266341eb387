package instance

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Composer says what an instance should consist of now, given what has been observed.
// Implementations are immutable and safe for concurrent use.
type Composer interface {
	// Compose may be called several times in one reconcile: whenever acting on its answer has
	// made new facts, or its answer has named objects that weren't read before.
	Compose(ctx context.Context, facts plan.Facts, cluster ClusterState) (plan.Desired, error)
	// ChildKinds lists the kinds of the objects that instances may consist of, as far as they are
	// known beforehand.
	ChildKinds() []schema.GroupVersionKind
	// Depth bounds the rounds of one reconcile: it is the number of layers of the nodes.
	Depth() int
	// StatusFields are the engine's own fields that the kind's status has.
	StatusFields() report.FieldSet
	// Defaults are the definition's policies for the deletion of instances.
	Defaults() inventory.Defaults
	// SchemaUnknown reports whether the schema of a kind was unknown when the composer was made: the kind's nodes wait
	// for a new composer.
	SchemaUnknown(schema.GroupVersionKind) bool
}

// ClusterState is what a composer can read in addition to the facts. It is read from caches;
// what has been read is watched, and a change of it triggers another reconcile.
type ClusterState interface {
	// Object reads one object. The namespace is empty for cluster-scoped kinds.
	Object(need plan.Need) plan.Lookup
	// Matching reads objects by their labels, in a namespace or, if that is empty, in all;
	// unreadable says why they can't be read now.
	Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) (objects []*unstructured.Unstructured, unreadable *plan.Unreadable)
	// Namespaced reports whether the objects of a kind are in namespaces; unknown for a kind that isn't served now.
	Namespaced(kind schema.GroupVersionKind) (namespaced, known bool)
	// Schema is the OpenAPI v3 schema of a kind, nil for one that has none; unknown for
	// a kind that isn't served now.
	Schema(kind schema.GroupVersionKind) (doc map[string]any, known bool, err error)
	// Round counts the rounds of observing and acting in this reconcile, from 0.
	Round() int
	// Keys prove which objects are children of an instance.
	Keys() inventory.Keys
	// Memory holds what the composer remembers of the instance between reconciles. It is lost
	// at a restart.
	Memory() *any
}

// clusterState reads through the lease of one reconcile.
type clusterState struct {
	r     *Reconciler
	s     *subject
	o     *observation
	round int
	ctx   context.Context // of the reconcile
}

func (c clusterState) Object(need plan.Need) plan.Lookup {
	found, state := c.s.lease.Object(need.Kind, need.Namespace, need.Name)
	lookup := plan.Lookup{Object: found, Unreadable: unavailability(need.Kind, state)}
	if lookup.Unreadable != nil {
		lookup.Object = nil
		c.o.facts.UnreadableKinds = append(c.o.facts.UnreadableKinds, *lookup.Unreadable)
	}
	return lookup
}

func (c clusterState) Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, *plan.Unreadable) {
	found, state := c.s.lease.Matching(kind, namespace, selector)
	if unreadable := unavailability(kind, state); unreadable != nil {
		c.o.facts.UnreadableKinds = append(c.o.facts.UnreadableKinds, *unreadable)
		return nil, unreadable
	}
	return found, nil
}

func (c clusterState) Schema(kind schema.GroupVersionKind) (doc map[string]any, known bool, err error) {
	c.r.watchLabelled(c.ctx, c.s, c.s.lease, kind) // a change of the kind triggers another reconcile
	found, known, err := c.r.Kinds.Lookup(c.ctx, kind)
	if err != nil || !known || found.Schema == nil {
		return nil, known, err
	}
	raw, err := json.Marshal(found.Schema)
	if err != nil {
		return nil, false, err
	}
	return doc, true, json.Unmarshal(raw, &doc)
}

func (c clusterState) Namespaced(kind schema.GroupVersionKind) (namespaced, known bool) {
	resource, err := c.r.Kinds.Resolve(c.ctx, kind)
	return resource.Namespaced, err == nil
}

func (c clusterState) Round() int { return c.round }

func (c clusterState) Keys() inventory.Keys { return c.r.Keys }

func (c clusterState) Memory() *any { return &c.s.memory.composerMemory }
