package instance

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/plan"
	"github.com/espalier-dev/espalier/internal/report"
	"github.com/espalier-dev/espalier/internal/watch"
)

// Composer says what an instance wants now, given what has been observed of its
// world. Implementations are immutable and safe for concurrent use.
type Composer interface {
	// Compose may be called several times in one pass: whenever an answer has made
	// facts, or has named objects of kinds that weren't looked at before and are there.
	Compose(ctx context.Context, facts plan.Facts, world World) (plan.Desired, error)
	// Written lists the kinds whose objects it may ask for, as far as they are known
	// beforehand.
	Written() []schema.GroupVersionKind
	// Depth bounds how often an answer may let more resolve: the number of
	// layers of its nodes.
	Depth() int
	// Room says which of the engine's own fields the kind's status has room for.
	Room() report.Room
	// Defaults are what is to become of the instances when they are deleted.
	Defaults() inventory.Defaults
	// Untyped says whether the kind was unknown when the composer was made: its
	// nodes wait for a new composer.
	Untyped(schema.GroupVersionKind) bool
}

// World is where a composer may look beside the facts that it is given. All of it is
// read from caches; what was looked at is watched from then on, and a change of it
// brings another pass.
type World interface {
	// Object looks at one object. The namespace is empty for cluster-scoped kinds.
	Object(need plan.Need) plan.Look
	// Matching looks at objects by their labels, in a namespace or, if that is empty, in
	// all; blind says why they can't be told now.
	Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) (objects []*unstructured.Unstructured, blind *plan.Blind)
	// Namespaced says whether the objects of a kind are in namespaces; unknown for a kind
	// that no server knows now.
	Namespaced(kind schema.GroupVersionKind) (namespaced, known bool)
	// Schema is the OpenAPI v3 schema of a kind, nil for one that has none; unknown is one
	// that no server knows now.
	Schema(kind schema.GroupVersionKind) (doc map[string]any, known bool, err error)
	// Turn counts the rounds of observing and acting in this pass, from 0.
	Turn() int
	// Memory is what the composer remembers of the instance. Losing it costs a request or
	// two: it is gone after a restart.
	Memory() *any
}

// world is what a visit sees of it.
type world struct {
	r   *Reconciler
	v   *visit
	ctx context.Context // of the pass
}

func (w world) Object(need plan.Need) plan.Look {
	found, state := w.v.lease.Object(need.Kind, need.Namespace, need.Name)
	look := plan.Look{Object: found, Blind: blindness(need.Kind, state)}
	if look.Blind != nil {
		look.Object = nil
		w.v.facts.Blind = append(w.v.facts.Blind, *look.Blind)
	}
	return look
}

func (w world) Matching(kind schema.GroupVersionKind, namespace string, selector labels.Selector) ([]*unstructured.Unstructured, *plan.Blind) {
	found, state := w.v.lease.Matching(kind, namespace, selector)
	if blind := blindness(kind, state); blind != nil {
		w.v.facts.Blind = append(w.v.facts.Blind, *blind)
		return nil, blind
	}
	return found, nil
}

func (w world) Schema(kind schema.GroupVersionKind) (doc map[string]any, known bool, err error) {
	w.v.lease.Want(watch.ChildrenOf(kind, w.v.owner.ID())) // when the kind comes or changes, it brings another pass
	found, known, err := w.r.Kinds.Lookup(w.ctx, kind)
	if err != nil || !known || found.Schema == nil {
		return nil, known, err
	}
	raw, err := json.Marshal(found.Schema)
	if err != nil {
		return nil, false, err
	}
	return doc, true, json.Unmarshal(raw, &doc)
}

func (w world) Namespaced(kind schema.GroupVersionKind) (namespaced, known bool) {
	resource, err := w.r.Kinds.Resolve(w.ctx, kind)
	return resource.Namespaced, err == nil
}

func (w world) Turn() int { return w.v.turn }

func (w world) Memory() *any { return &w.v.memory.composed }
