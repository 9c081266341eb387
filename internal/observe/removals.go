package observe

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// removals are what an instance tells of its objects that are to go.
type removals struct {
	said     []removal
	orphaned bool
	policies inventory.Policies
	seen     map[object.Key]bool
}

type removal struct {
	report.Blocker
	pruned bool
}

func removalsOf(instance *unstructured.Unstructured, n Node) removals {
	out := removals{seen: map[object.Key]bool{}}
	out.policies, _ = inventory.PoliciesOf(instance)
	if n.Deletion != nil {
		out.orphaned = n.Deletion.Policy == report.Orphan
		for _, b := range n.Deletion.Blockers {
			out.said = append(out.said, removal{b, false})
		}
	}
	for _, b := range n.Pruning {
		out.said = append(out.said, removal{b, true})
	}
	return out
}

// tell adds to an object's node what its instance tells of it.
func (r removals) tell(n *Node, o *unstructured.Unstructured) {
	key := object.KeyOf(o)
	n.staying = r.orphaned || r.policies.Of(o) == v1alpha1.DeletionOrphan
	r.seen[key] = true
	for _, said := range r.said {
		if said.Object.Key() == key {
			n.Ready, n.Reason = False, string(said.Reason)
			n.Removal, n.Pruned = &said.Blocker, said.pruned
			return
		}
	}
}

// unseen are the objects that are in the way and can't be looked at. Others that
// aren't in the tree have just gone, and their end is about to be written.
func (r removals) unseen() []Node {
	var out []Node
	for _, said := range r.said {
		key := said.Object.Key()
		if r.seen[key] || !hidden(said.Hold) {
			continue
		}
		r.seen[key] = true
		out = append(out, Node{
			Node: said.Node, Exists: true, Unseen: true, Ready: Unknown, Reason: string(said.Reason),
			APIVersion: said.Object.APIVersion, Kind: said.Object.Kind, Namespace: said.Object.Namespace, Name: said.Object.Name,
			Removal: &said.Blocker, Pruned: said.pruned,
		})
	}
	return out
}

func hidden(h report.Hold) bool {
	switch h.Reason {
	case report.KindUnavailable, report.OutOfReach, report.Forbidden:
		return true
	default:
		return h.Object.Name == ""
	}
}
