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
		kind   schema.GroupVersionKind // other than a Secret
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
		"stringData beside invalid data stays": {
			reason: "the same",
			fields: `{stringData: {a: one}, data: none}`,
			want:   `{stringData: {a: one}, data: none}`,
		},
		"empty stringData is left out": {
			reason: "it stands for nothing",
			fields: `{stringData: {}, type: Opaque}`,
			want:   `{type: Opaque}`,
		},
		"stringData of a Secret of another group stays": {
			reason: "the API server doesn't know what it means",
			kind:   schema.GroupVersionKind{Group: "vault.example.com", Version: "v1", Kind: "Secret"},
			fields: `{stringData: {a: one}}`,
			want:   `{stringData: {a: one}}`,
		},
		"stringData of another kind stays": {
			reason: "the API server doesn't know what it means",
			kind:   configMap,
			fields: `{stringData: {a: one}}`,
			want:   `{stringData: {a: one}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := wantsSecret(document(t, tc.fields))
			if !tc.kind.Empty() {
				node.Kind = tc.kind
				node.Object.SetGroupVersionKind(tc.kind)
			}
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

// Another manager that applies stringData changes data, and leaves their ownership.
func TestDataWithAnotherValueHaveDrifted(t *testing.T) {
	for name, tc := range map[string]struct {
		reason        string
		desired, live string
		want          []object.Path
	}{
		"Another value":      {"it is another manager's", `{data: {a: b25l, b: dHdv}}`, `{data: {a: eA==, b: dHdv}}`, []object.Path{"data.a"}},
		"The same value":     {"nothing has changed", `{data: {a: b25l}}`, `{data: {a: b25l}}`, nil},
		"Line breaks":        {"the API server doesn't store them", `{data: {a: "b25s\nb25l"}}`, `{data: {a: b25sb25l}}`, nil},
		"No base64":          {"the API server says so", `{data: {a: "-"}}`, `{data: {a: b25l}}`, nil},
		"No text":            {"the API server says so", `{data: {a: 1}}`, `{data: {a: b25l}}`, nil},
		"A missing key":      {"its ownership says whether it is lost", `{data: {a: b25l}}`, `{data: {}}`, nil},
		"A key of another's": {"it is not desired", `{data: {a: b25l}}`, `{data: {a: b25l, b: dHdv}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			desired, live := wantsSecret(document(t, tc.desired)).Object, wantsSecret(document(t, tc.live)).Object
			live.SetManagedFields([]metav1.ManagedFieldsEntry{entry(fieldsOf(desired.Object))})
			if diff := cmp.Diff(tc.want, plan.DriftedFields(desired, live, v1alpha1.ChildManager)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
	both := func() *unstructured.Unstructured { return wantsSecret(document(t, `{data: {a: b25l}}`)).Object }
	taken := both()
	taken.Object["data"] = map[string]any{"a": "eA=="}
	if diff := cmp.Diff([]object.Path{"data.a"}, plan.DriftedFields(both(), taken, v1alpha1.ChildManager)); diff != "" {
		t.Errorf("a field that is lost is listed once: -want +got:\n%s", diff)
	}
	other := both()
	other.SetKind("ConfigMap")
	taken.SetKind("ConfigMap")
	taken.SetManagedFields([]metav1.ManagedFieldsEntry{entry(fieldsOf(other.Object))})
	if drifted := plan.DriftedFields(other, taken, v1alpha1.ChildManager); len(drifted) > 0 {
		t.Errorf("the values of another kind are compared: %v", drifted)
	}
}
