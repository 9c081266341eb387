package instance

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// observeReferences adds to the children the objects that the instance names as its own and that
// lack the engine's labels. If one can't be read, its kind counts as unread.
func (r *Reconciler) observeReferences(s *subject, o *observation) {
	known := map[object.Key]bool{}
	for _, children := range o.facts.Owned {
		for _, child := range children {
			known[object.KeyOf(child)] = true
		}
	}
	for _, ref := range r.Dialect.References(s.instance) {
		if known[ref.key()] || o.facts.IsUnreadable(ref.Kind.GroupKind()) {
			continue
		}
		found, unreadable := r.readReference(s, ref)
		switch {
		case unreadable != nil:
			o.cannotRead(ref.Kind, *unreadable)
		case found != nil:
			o.addOwned(s.memory, ref.nodeOf(found), found)
		}
	}
}

// It is nil if the object isn't the instance's.
func (r *Reconciler) readReference(s *subject, ref Reference) (*unstructured.Unstructured, *plan.Unreadable) {
	found, state := s.lease.OwnObject(ref.Kind, ref.Namespace, ref.Name)
	if unreadable := unavailability(ref.Kind, state); unreadable != nil {
		return nil, unreadable
	}
	if found == nil || !s.owner.OwnsAs(found, ref.nodeOf(found)) || ref.nodeOf(found) == "" {
		return nil, nil
	}
	return found, nil
}

func (r *Reconciler) observeRemainingReferences(ctx context.Context, s *subject, remains *plan.Remaining) {
	for _, ref := range r.Dialect.References(s.instance) {
		matches := func(o *unstructured.Unstructured) bool { return object.KeyOf(o) == ref.key() }
		if slices.ContainsFunc(remains.Children, matches) {
			continue
		}
		found, unreadable := r.readReference(s, ref)
		switch {
		case unreadable != nil && unreadable.Reason == plan.WaitingForKind && r.isGone(ctx, ref.Kind.GroupKind()): // there are none
		case unreadable != nil:
			remains.Unreadable[ref.Kind] = *unreadable
		case found != nil:
			remains.Children = append(remains.Children, found)
		}
	}
}

func (r Reference) key() object.Key {
	return object.Key{Group: r.Kind.Group, Kind: r.Kind.Kind, Namespace: r.Namespace, Name: r.Name}
}

func (r Reference) nodeOf(o *unstructured.Unstructured) string {
	if r.Node != "" {
		return r.Node
	}
	return inventory.Node(o)
}
