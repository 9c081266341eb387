package plan_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// TestReferencesAreNoReasonToWrite has a node whose object was applied with or without
// references to its owner.
func TestReferencesAreNoReasonToWrite(t *testing.T) {
	referring, bare := owner, owner
	referring.CRD, bare.NoOwnerReferences = inventory.CRD{Name: "vpcs.kro.run", UID: "crd"}, true
	made := func(by inventory.Owner) plan.Node {
		n := wants("a", 0, "x")
		n.Observed = n.Object.DeepCopy()
		by.Mark(n.Observed, inventory.Place{Node: "a"})
		n.Observed.SetManagedFields([]metav1.ManagedFieldsEntry{entry(fieldsOf(n.Observed.Object))})
		n.Observed.SetUID("uid-x")
		n.Ready = true
		return n
	}
	cases := map[string]struct {
		reason    string
		node      plan.Node
		change    func(*unstructured.Unstructured)
		unwanted  bool
		want      plan.Action
		mentioned int
	}{
		"It has them":                     {"it is as it was applied", made(referring), nil, false, plan.Keep, 2},
		"It hasn't, from before":          {"an upgrade writes nothing", made(bare), nil, false, plan.Keep, 2},
		"It hasn't, and has drifted":      {"what is written anyway gets them", made(bare), lost, false, plan.Correct, 2},
		"It has, and isn't to":            {"who asked for it wants it so now", made(referring), nil, true, plan.Update, 0},
		"It hasn't, and isn't to":         {"it is as it was applied", made(bare), nil, true, plan.Keep, 0},
		"Somebody took them off":          {"it has drifted", made(referring), func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }, false, plan.Correct, 2},
		"Somebody took one of them off":   {"it has drifted", made(referring), func(o *unstructured.Unstructured) { o.SetOwnerReferences(o.GetOwnerReferences()[1:]) }, false, plan.Correct, 2},
		"Somebody made it its controller": {"we don't say that it is", made(referring), func(o *unstructured.Unstructured) { control(o) }, false, plan.Correct, 2},
		"It has another owner as well": {"which is his", made(referring), func(o *unstructured.Unstructured) {
			o.SetOwnerReferences(append(o.GetOwnerReferences(), metav1.OwnerReference{UID: "theirs"}))
		}, false, plan.Keep, 2},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.change != nil {
				tc.change(tc.node.Observed)
			}
			p := plan.Compute(plan.Desired{Nodes: []plan.Node{tc.node}, NoOwnerReferences: tc.unwanted}, plan.Facts{Instance: instance(), Now: now}, plan.History{}, referring, v1alpha1.ChildManager)
			step := p.Steps[0]
			if step.Action != tc.want || len(step.Object.GetOwnerReferences()) != tc.mentioned {
				t.Errorf("%s: %s, with %v", tc.reason, step.Action, step.Object.GetOwnerReferences())
			}
		})
	}
}

func control(o *unstructured.Unstructured) {
	refs, yes := o.GetOwnerReferences(), true
	refs[0].Controller = &yes
	o.SetOwnerReferences(refs)
}
