package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// wantsSecret is a node that renders a Secret with the given fields.
func wantsSecret(fields map[string]any) plan.Node {
	o := &unstructured.Unstructured{Object: fields}
	o.SetAPIVersion("v1")
	o.SetKind("Secret")
	o.SetNamespace("prod")
	o.SetName("x")
	return plan.Node{ID: "secret", Kind: schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, Object: o}
}

func TestSecretsAreAppliedAsTheAPIServerStoresThem(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		fields string
		want   string
	}{
		"stringData becomes data": {
			reason: "the API server records stringData as owned, and stores data, which nobody owns then",
			fields: `{stringData: {a: one}}`,
			want:   `{metadata: {annotations: {"espalier.dev/string-data": "true"}}, data: {a: b25l}}`,
		},
		"stringData has precedence over data": {
			reason: "as in the API server",
			fields: `{stringData: {a: one}, data: {a: eA==, b: eQ==}}`,
			want:   `{data: {a: b25l, b: eQ==}}`,
		},
		"invalid stringData stays": {
			reason: "the API server says what is wrong with it",
			fields: `{stringData: {a: 1}}`,
			want:   `{stringData: {a: 1}}`,
		},
		"empty stringData is left out": {
			reason: "it stands for nothing",
			fields: `{stringData: {}, type: Opaque}`,
			want:   `{type: Opaque}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := wantsSecret(document(t, tc.fields))
			before := node.Object.DeepCopy()
			p := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Now: now, Instance: instance()}, plan.History{}, owner, v1alpha1.ChildManager)
			got := p.Steps[0].Object.Object
			of, marked := p.Steps[0].Object.GetAnnotations()[v1alpha1.StringDataAnnotation]
			for _, other := range []string{"apiVersion", "kind", "metadata"} {
				delete(got, other)
			}
			if marked {
				got["metadata"] = map[string]any{"annotations": map[string]any{v1alpha1.StringDataAnnotation: of}}
			}
			if diff := cmp.Diff(document(t, tc.want), got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(before, node.Object); diff != "" {
				t.Errorf("the node's object has changed:\n%s", diff)
			}
		})
	}
}

func TestDriftOfASecretIsFoundThroughItsStringData(t *testing.T) {
	paths := func(text string) []object.Pattern {
		p, err := object.ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		return []object.Pattern{p}
	}
	for name, tc := range map[string]struct {
		drift plan.Drift
		want  plan.Action
	}{
		"it is corrected": {plan.Drift{}, plan.Correct},
		"unless the path of the stringData is left": {plan.Drift{Policy: v1alpha1.DriftIgnore, Paths: paths("stringData.a")}, plan.Keep},
		"or that of the data":                       {plan.Drift{Policy: v1alpha1.DriftIgnore, Paths: paths("data.a")}, plan.Keep},
		"and also if another path is left":          {plan.Drift{Policy: v1alpha1.DriftIgnore, Paths: paths("stringData.b")}, plan.Correct},
	} {
		t.Run(name, func(t *testing.T) {
			node := wantsSecret(map[string]any{"stringData": map[string]any{"a": "one"}})
			node.Drift = tc.drift
			compute := func() plan.Step {
				return plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Now: now, Instance: instance()}, plan.History{}, owner, v1alpha1.ChildManager).Steps[0]
			}
			applied := compute().Object
			applied.SetUID("uid-x")
			applied.SetManagedFields([]metav1.ManagedFieldsEntry{entry(fieldsOf(applied.Object))})
			node.Observed, node.Ready = applied, true
			if step := compute(); step.Action != plan.Keep {
				t.Fatalf("without drift: %s", step.Action)
			}
			lost(node.Observed)
			if step := compute(); step.Action != tc.want {
				t.Errorf("%s, not %s", step.Action, tc.want)
			}
		})
	}
}

// A former version applied stringData: nobody owned the data, which aren't another manager's for that.
func TestDataOfAFormerVersionAreNotLeftToOthers(t *testing.T) {
	node := wantsSecret(document(t, `{stringData: {a: two}}`))
	node.Drift = plan.Drift{Policy: v1alpha1.DriftIgnore}
	was := wantsSecret(document(t, `{stringData: {a: one}}`)).Object
	owner.Mark(was, inventory.Place{Node: node.ID})
	was.SetManagedFields([]metav1.ManagedFieldsEntry{entry(fieldsOf(was.Object))})
	was.SetUID("uid-x")
	was.Object["data"] = map[string]any{"a": "b25l"}
	delete(was.Object, "stringData")
	node.Observed, node.Ready = was, true
	step := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Now: now, Instance: instance()}, plan.History{}, owner, v1alpha1.ChildManager).Steps[0]
	if step.Action != plan.Update {
		t.Errorf("%s, not %s", step.Action, plan.Update)
	}
	if len(step.OmitFields) > 0 {
		t.Errorf("%s are left to another manager", step.OmitFields)
	}
}
