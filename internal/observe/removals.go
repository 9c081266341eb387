package observe

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// removals are the objects that an instance's status lists as being removed.
type removals struct {
	blockers []removal
	orphaned bool
	policies inventory.Policies
	seen     map[object.Key]bool
}

type removal struct {
	report.Blocker
	pruned bool
}

func readRemovals(instance *unstructured.Unstructured, n Node) removals {
	out := removals{seen: map[object.Key]bool{}}
	out.policies, _ = inventory.PoliciesOf(instance, inventory.DefaultsOf(instance))
	if n.Deletion != nil {
		out.orphaned = n.Deletion.Policy == report.Orphan
		for _, b := range n.Deletion.Blockers {
			out.blockers = append(out.blockers, removal{b, false})
		}
	}
	for _, b := range n.Pruning {
		out.blockers = append(out.blockers, removal{b, true})
	}
	return out
}

// addTo sets the removal of a child's node, if the instance's status lists the child.
func (r removals) addTo(n *Node, o *unstructured.Unstructured) {
	key := object.KeyOf(o)
	n.orphaned = r.orphaned || r.policies.Of(o) == v1alpha1.DeletionOrphan
	r.seen[key] = true
	for _, b := range r.blockers {
		if b.Object.Key() == key {
			n.Ready, n.Reason = False, string(b.Reason)
			n.Removal, n.Pruned = &b.Blocker, b.pruned
			return
		}
	}
}

// unseen returns nodes for the blockers that cannot be read. Others that are not in the tree
// have just gone: the status is about to say so.
func (r removals) unseen() []Node {
	var out []Node
	for _, b := range r.blockers {
		key := b.Object.Key()
		if r.seen[key] || !isUnreadable(b.BlockedObject) {
			continue
		}
		r.seen[key] = true
		out = append(out, Node{
			Node: b.Node, Exists: true, Unseen: true, Ready: Unknown, Reason: string(b.Reason),
			APIVersion: b.Object.APIVersion, Kind: b.Object.Kind, Namespace: b.Object.Namespace, Name: b.Object.Name,
			Removal: &b.Blocker, Pruned: b.pruned,
		})
	}
	return out
}

func isUnreadable(h report.BlockedObject) bool {
	switch h.Reason {
	case report.KindUnavailable, report.OutOfReach, report.Forbidden:
		return true
	default:
		return h.Object.Name == ""
	}
}
