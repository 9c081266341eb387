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
		"It has owner references":                         {"it is as it was applied", made(referring), nil, false, plan.Keep, 2},
		"An earlier version has created it without":       {"an upgrade writes nothing", made(bare), nil, false, plan.Keep, 2},
		"It has none, and other fields have drifted":      {"the correction adds them", made(bare), lost, false, plan.Correct, 2},
		"It has owner references, and the policy is None": {"the policy applies at once", made(referring), nil, true, plan.Update, 0},
		"It has none, and the policy is None":             {"it is as it was applied", made(bare), nil, true, plan.Keep, 0},
		"Another client has removed them":                 {"it has drifted", made(referring), func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }, false, plan.Correct, 2},
		"Another client has removed one":                  {"it has drifted", made(referring), func(o *unstructured.Unstructured) { o.SetOwnerReferences(o.GetOwnerReferences()[1:]) }, false, plan.Correct, 2},
		"Another client has replaced one": {"it has drifted", made(referring), func(o *unstructured.Unstructured) {
			refs := o.GetOwnerReferences()
			refs[0].UID = "theirs"
			o.SetOwnerReferences(refs)
		}, false, plan.Correct, 2},
		"Another client has renamed one": {"the garbage collector would delete the object", made(referring), func(o *unstructured.Unstructured) {
			refs := o.GetOwnerReferences()
			refs[0].Name = "theirs"
			o.SetOwnerReferences(refs)
		}, false, plan.Correct, 2},
		"Another client has set controller: true": {"the instance is no controller", made(referring), func(o *unstructured.Unstructured) { control(o) }, false, plan.Correct, 2},
		"It has another owner as well": {"the other reference is kept", made(referring), func(o *unstructured.Unstructured) {
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
