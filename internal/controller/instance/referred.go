package instance

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/plan"
)

// observeReferred adds to the instance's own objects those that it names and that don't
// carry the engine's marks yet. What isn't known of them is as if their kind weren't.
func (r *Reconciler) observeReferred(v *visit) {
	known := map[object.Key]bool{}
	for _, objects := range v.facts.Owned {
		for _, o := range objects {
			known[object.KeyOf(o)] = true
		}
	}
	for _, ref := range r.Dialect.Refers(v.instance) {
		if known[ref.key()] || v.facts.IsUnread(ref.Kind.GroupKind()) {
			continue
		}
		found, blind := r.referred(v, ref)
		switch {
		case blind != nil:
			v.unread = append(v.unread, ref.Kind.GroupKind())
			v.facts.Unread[ref.Kind] = *blind
		case found != nil:
			v.own(ref.nodeOf(found), found)
		}
	}
}

// referred is what an instance names, if it is the instance's.
func (r *Reconciler) referred(v *visit, ref Reference) (*unstructured.Unstructured, *plan.Blind) {
	found, state := v.lease.Object(ref.Kind, ref.Namespace, ref.Name)
	if blind := blindness(ref.Kind, state); blind != nil {
		return nil, blind
	}
	if found == nil || !v.owner.Owns(found) || ref.nodeOf(found) == "" {
		return nil, nil
	}
	return found, nil
}

// leftReferred adds to what an instance that is being deleted has left what it names.
func (r *Reconciler) leftReferred(v *visit, remains *plan.Remains) {
	for _, ref := range r.Dialect.Refers(v.instance) {
		is := func(o *unstructured.Unstructured) bool { return object.KeyOf(o) == ref.key() }
		if slices.ContainsFunc(remains.Children, is) {
			continue
		}
		found, blind := r.referred(v, ref)
		switch {
		case blind != nil && blind.Reason == plan.WaitingForKind: // there are none
		case blind != nil:
			remains.Unread[ref.Kind] = *blind
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
