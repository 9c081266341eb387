package observe

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/health"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Build makes the tree of the world's root, which must be there.
func Build(w World, now time.Time) Node {
	return w.build(w.Root, false, map[string]bool{}, now)
}

// BuildAll makes the trees of all of the world's roots.
func BuildAll(w World, now time.Time) []Node {
	out := make([]Node, len(w.Roots))
	for i, root := range w.Roots {
		out[i] = w.build(root, false, map[string]bool{}, now)
	}
	return out
}

// build makes the tree of an object. Above lists the instances that it is in:
// labels that run in a circle must not hang whoever looks at them.
func (w World) build(o *unstructured.Unstructured, parentReady bool, above map[string]bool, now time.Time) Node {
	n := describe(o, parentReady)
	for _, instance := range w.instances(o) {
		below := w.build(instance, false, above, now)
		below.id = below.object().String()
		n.Children = append(n.Children, below)
	}
	id := ApplySet(o)
	if id == "" || above[id] {
		return n
	}
	above[id] = true
	defer delete(above, id)
	told, going := toldOf(o, now), removalsOf(o, n)
	seen := map[string]bool{}
	for _, child := range w.children(o) {
		below := w.build(child, n.Ready == True, above, now)
		below.id = inventory.NodeID(child, o.GetNamespace())
		told.add(&below)
		going.tell(&below, child)
		n.Children = append(n.Children, below)
		seen[below.Node] = true
	}
	n.Children = append(n.Children, going.unseen()...)
	if n.Deleted == nil {
		n.Children = append(n.Children, told.missing()...)
		n.Children = append(n.Children, skippedOf(o, seen)...)
		n.Children = w.withVariables(o, n.Children)
	}
	return n
}

// describe says what an object tells of itself, and, where it doesn't tell, what
// follows from its parent: a parent is ready when all of its parts are.
func describe(o *unstructured.Unstructured, parentReady bool) Node {
	n := Node{
		Node: inventory.Node(o), Exists: true, Instance: ApplySet(o) != "",
		APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
	}
	if item := inventory.ItemOf(o); item != nil {
		n.Index = &item.Index
	}
	if at := o.GetCreationTimestamp(); !at.IsZero() {
		n.Created = utc(at.Time)
	}
	n.Ready, n.Reason, n.Message = readiness(o, n.Instance)
	if complaint := health.Complaint(o); complaint != "" && !strings.Contains(complaint, n.Message) {
		n.Message += "; " + complaint
	} else if complaint != "" {
		n.Message = complaint
	}
	if n.Ready == Unsaid && parentReady {
		n.Ready = True
	}
	if at := o.GetDeletionTimestamp(); at != nil {
		n.Deleted, n.Finalizers = utc(at.Time), o.GetFinalizers()
		n.Ready, n.Reason = False, string(report.Deleting)
		n.Deletion = report.ReadDeletion(o)
	}
	if n.Instance {
		n.Pruning = report.ReadPruning(o)
	}
	return n
}

func utc(t time.Time) *time.Time {
	t = t.UTC()
	return &t
}

// skippedOf are the resources of an instance that are left out, and that nothing is
// left of.
func skippedOf(instance *unstructured.Unstructured, seen map[string]bool) []Node {
	var out []Node
	for _, s := range report.ReadSkipped(instance) {
		if seen[s.Node] {
			continue
		}
		because := plan.LeftOut{By: s.By, Condition: s.Condition, Inputs: s.Inputs}.String()
		if s.By != s.Node {
			because = "because of " + s.By + ": " + because
		}
		out = append(out, Node{Node: s.Node, Skipped: true, Ready: Unsaid, Reason: "Skipped", Message: because})
	}
	return out
}
