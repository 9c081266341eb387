package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// TestTeardownEnds takes apart any set of children, whatever they say of their
// order, while those that were asked to go do so at any time: every step makes
// progress, nothing goes before what stands on it unless they contradict one
// another, and what is told adds up.
func TestTeardownEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		remains := plan.Remaining{Instance: instance(), Children: drawChildren(t), Now: now}
		total := len(remains.Children)
		for steps := 0; ; steps++ {
			if steps > 1000 {
				t.Fatal("it doesn't end")
			}
			removal := plan.Teardown(remains)
			if removal.Done {
				if len(remains.Children) > 0 {
					t.Fatalf("%d are left", len(remains.Children))
				}
				return
			}
			if d := removal.Deletion; int(d.Total) != total || int(d.Remaining) != len(remains.Children) || d.Removed+d.Remaining != d.Total || d.Wave < 0 || d.Wave > d.Waves {
				t.Fatalf("of %d children %d are left; it tells %+v", total, len(remains.Children), d)
			}
			for _, o := range removal.Delete {
				dying(o)
			}
			going := goingOf(remains.Children)
			if len(going) == 0 {
				t.Fatal("something is left and nothing is done about it")
			}
			if len(removal.Delete) == 0 || rapid.Bool().Draw(t, "goes") {
				gone := rapid.SampledFrom(going).Draw(t, "gone")
				remains.Children = slices.DeleteFunc(remains.Children, func(o *unstructured.Unstructured) bool { return o == gone })
			}
			told := removal.Deletion
			remains.Reported.Deletion, remains.History.ReportedAt = &told, now
			remains.Now = remains.Now.Add(time.Minute)
		}
	})
}

func goingOf(children []*unstructured.Unstructured) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, o := range children {
		if o.GetDeletionTimestamp() != nil {
			out = append(out, o)
		}
	}
	return out
}

func drawChildren(t *rapid.T) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	id := rapid.Map(rapid.IntRange(0, 11), func(i int) string { return fmt.Sprint("c", i) })
	for i := range rapid.IntRange(0, 12).Draw(t, "children") {
		at := inventory.Place{Layer: rapid.IntRange(0, 4).Draw(t, "layer")}
		at.DependsOn = rapid.SliceOfNDistinct(id, 0, 2, rapid.ID).Draw(t, "depends on")
		at.DeleteAfter = rapid.SliceOfNDistinct(id, 0, 2, rapid.ID).Draw(t, "delete after")
		o := left(fmt.Sprint("c", i), at)
		if rapid.IntRange(0, 9).Draw(t, "unmarked") == 0 {
			o.SetAnnotations(nil)
		}
		out = append(out, o)
	}
	return out
}

// TestNoObjectLosesItsDependencies draws children in layers, each on others of
// earlier ones, and looks that none is deleted while another stands on it, when
// all go and when some are pruned.
func TestNoObjectLosesItsDependencies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var children []*unstructured.Unstructured
		for i := range rapid.IntRange(1, 10).Draw(t, "children") {
			at := inventory.Place{}
			for j := range i {
				if rapid.IntRange(0, 2).Draw(t, "stands on") == 0 {
					at.DependsOn = append(at.DependsOn, fmt.Sprint("c", j))
					at.Layer = max(at.Layer, inventory.Layer(children[j])+1)
				}
			}
			children = append(children, left(fmt.Sprint("c", i), at))
		}
		pruning := rapid.Bool().Draw(t, "prune")
		for len(children) > 0 {
			remains := plan.Remaining{Instance: instance(), Children: children, Now: now}
			move := plan.Teardown(remains).RemovalStep
			if pruning {
				move = prune(remains).RemovalStep
			}
			if len(move.Delete) == 0 {
				t.Fatal("nothing is done")
			}
			for _, o := range move.Delete {
				for _, other := range children {
					if slices.Contains(inventory.PlaceOf(other).DependsOn, inventory.Node(o)) {
						t.Fatalf("%s goes before %s", o.GetName(), other.GetName())
					}
				}
			}
			children = slices.DeleteFunc(children, func(o *unstructured.Unstructured) bool { return slices.Contains(move.Delete, o) })
		}
	})
}

// TestComputeNeverDeletesForeignObjects draws instances and worlds: whatever is
// pruned is in the owner's set, was made by one of its nodes and is wanted by
// none; and the same input gives the same plan.
func TestComputeNeverDeletesForeignObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := []string{"", "a", "b", "c"}
		facts := plan.Facts{Instance: instance(), Now: now, Owned: map[string][]*unstructured.Unstructured{}}
		for i := range rapid.IntRange(0, 8).Draw(t, "owned") {
			id := rapid.SampledFrom(ids).Draw(t, "id")
			o := stored(rendered(fmt.Sprint("o", i)), id, rapid.IntRange(0, 3).Draw(t, "layer"))
			labels := o.GetLabels()
			if id == "" {
				delete(labels, v1alpha1.NodeIDLabel)
			}
			if rapid.IntRange(0, 4).Draw(t, "strange") == 0 {
				labels[v1alpha1.ApplySetPartOfLabel] = rapid.SampledFrom([]string{"", "another"}).Draw(t, "set")
			}
			o.SetLabels(labels)
			facts.Owned[id] = append(facts.Owned[id], o)
		}
		var desired plan.Desired
		for _, id := range ids[1:] {
			desired.Nodes = append(desired.Nodes, drawNode(t, id, facts))
		}
		p := plan.Compute(desired, facts, plan.History{}, owner, v1alpha1.ChildManager)
		if diff := cmp.Diff(p, plan.Compute(desired, facts, plan.History{}, owner, v1alpha1.ChildManager), cmp.AllowUnexported(inventory.Policies{})); diff != "" {
			t.Fatalf("the same input gives another plan:\n%s", diff)
		}
		for _, o := range p.Prune {
			if !owner.Owns(o) || inventory.Node(o) == "" {
				t.Fatalf("%s is not ours", o.GetName())
			}
			for i, step := range p.Steps {
				if !p.Settled || step.Current == o || step.Action != plan.Skip && desired.Nodes[i].Object == nil && inventory.Node(o) == step.Node {
					t.Fatalf("%s may be wanted still", o.GetName())
				}
			}
		}
	})
}

func drawNode(t *rapid.T, id string, facts plan.Facts) plan.Node {
	n := plan.Node{ID: id, Kind: configMap}
	switch rapid.IntRange(0, 3).Draw(t, "state") {
	case 0:
		n.SkipMessage = "left out"
	case 1:
		n.Waits = []plan.Wait{{Node: id, Reason: plan.WaitingForField, On: "x"}}
	default:
		n = wants(id, rapid.IntRange(0, 3).Draw(t, "layer"), fmt.Sprint("o", rapid.IntRange(0, 8).Draw(t, "name")))
		for _, o := range append(facts.Owned[id], facts.Owned[""]...) {
			if o.GetName() == n.Object.GetName() {
				n.Observed, n.Ready = o, true
			}
		}
	}
	return n
}
