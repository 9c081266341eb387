package plan_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/plan"
)

func TestTeardown(t *testing.T) {
	child := func(name string, layer int, with ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
		o := stored(rendered(name), "n", layer)
		for _, change := range with {
			change(o)
		}
		return o
	}
	unmarked := func(o *unstructured.Unstructured) { o.SetAnnotations(nil) }
	cases := map[string]struct {
		reason      string
		children    []*unstructured.Unstructured
		del, dying  []string
		later, left int
	}{
		"Without children it is done": {
			reason: "nothing is left",
		},
		"The last layer goes first, side by side": {
			reason:   "nothing loses what it stands on",
			children: []*unstructured.Unstructured{child("a", 0), child("c", 2), child("b", 2), child("d", 1)},
			del:      []string{"b", "c"}, later: 2, left: 4,
		},
		"A wave is waited for": {
			reason:   "what is on its way still needs the layers below",
			children: []*unstructured.Unstructured{child("a", 0), child("b", 1, dying)},
			dying:    []string{"b"}, later: 1, left: 2,
		},
		"The rest of a wave goes while one is on its way": {
			reason:   "they don't depend on each other",
			children: []*unstructured.Unstructured{child("a", 1), child("b", 1, dying)},
			del:      []string{"a"}, dying: []string{"b"}, left: 2,
		},
		"What tells no layer goes first": {
			reason:   "it may depend on anything",
			children: []*unstructured.Unstructured{child("a", 500), child("b", 0, unmarked)},
			del:      []string{"b"}, later: 1, left: 2,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := plan.Teardown(tc.children)
			if diff := cmp.Diff([][]string{tc.del, tc.dying}, [][]string{names(got.Delete), names(got.Terminating)}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if got.Later != tc.later || got.Remaining() != tc.left || got.Done() != (tc.left == 0) {
				t.Errorf("%s: later %d, remaining %d, done %t", tc.reason, got.Later, got.Remaining(), got.Done())
			}
		})
	}
}

// TestTeardownEnds takes apart any set of children, while those that are being
// deleted go at any time: every step makes progress, and no child goes before
// those of later layers.
func TestTeardownEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var children []*unstructured.Unstructured
		for i := range rapid.IntRange(0, 12).Draw(t, "children") {
			o := stored(rendered(fmt.Sprint("c", i)), "n", rapid.IntRange(0, 4).Draw(t, "layer"))
			if rapid.IntRange(0, 9).Draw(t, "unmarked") == 0 {
				o.SetAnnotations(nil)
			}
			children = append(children, o)
		}
		for steps := 0; ; steps++ {
			if steps > 1000 {
				t.Fatal("it doesn't end")
			}
			removal := plan.Teardown(children)
			if removal.Remaining() != len(children) {
				t.Fatalf("%d of %d children are told of", removal.Remaining(), len(children))
			}
			if removal.Done() {
				return
			}
			if len(removal.Delete)+len(removal.Terminating) == 0 {
				t.Fatal("something is left and nothing is done about it")
			}
			for _, o := range slices.Concat(removal.Delete, removal.Terminating) {
				for _, other := range children {
					if inventory.Layer(other) > inventory.Layer(o) {
						t.Fatalf("%s goes before %s", o.GetName(), other.GetName())
					}
				}
			}
			for _, o := range removal.Delete {
				dying(o)
			}
			if len(removal.Delete) == 0 || rapid.Bool().Draw(t, "goes") {
				gone := rapid.SampledFrom(slices.Concat(removal.Delete, removal.Terminating)).Draw(t, "gone")
				children = slices.DeleteFunc(children, func(o *unstructured.Unstructured) bool { return o == gone })
			}
		}
	})
}

// TestComputeNeverDeletesWhatIsNotOurs draws instances and worlds: whatever is
// pruned is in the owner's set, was made by one of its nodes and is wanted by
// none; and the same input gives the same plan.
func TestComputeNeverDeletesWhatIsNotOurs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := []string{"", "a", "b", "c"}
		facts := plan.Facts{Now: now, Owned: map[string][]*unstructured.Unstructured{}}
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
		if diff := cmp.Diff(p, plan.Compute(desired, facts, plan.History{}, owner, v1alpha1.ChildManager)); diff != "" {
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
		n.Skipped = "left out"
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
