package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
)

// owns makes our manager own the given fields of data, and what is ours by its labels.
func owns(fields ...string) func(*unstructured.Unstructured) {
	return func(o *unstructured.Unstructured) {
		all := fieldsOf(o.Object)
		data := map[string]any{}
		for _, field := range fields {
			data["f:"+field] = map[string]any{}
		}
		if all["f:data"] = data; len(data) == 0 {
			delete(all, "f:data") // without fields it would be owned as a whole
		}
		o.SetManagedFields(append(o.GetManagedFields()[:0], entry(all)))
	}
}

// unlabelled takes the ownership of all labels away.
func unlabelled(o *unstructured.Unstructured) {
	all := fieldsOf(o.Object)
	delete(all["f:metadata"].(map[string]any), "f:labels")
	o.SetManagedFields(append(o.GetManagedFields()[:0], entry(all)))
}

func patterns(t *testing.T, texts ...string) []object.Pattern {
	t.Helper()
	var out []object.Pattern
	for _, text := range texts {
		p, err := object.ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// TestDriftPolicies has a node want data.a and data.b, of which others
// have some.
func TestDriftPolicies(t *testing.T) {
	const warn, ignore = v1alpha1.DriftWarn, v1alpha1.DriftIgnore
	a, b := object.Path("data.a"), object.Path("data.b")
	glance := func(value string) string {
		o := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"a": value}}}
		return plan.FieldsDigest(o, []object.Path{a})
	}
	cases := map[string]struct {
		reason   string
		policy   v1alpha1.DriftPolicy
		paths    []string
		change   func(*unstructured.Unstructured)
		other    bool // something else is wanted than was applied
		sighting *plan.Inspection
		want     plan.Action
		lost     []object.Path
		omit     []object.Path
		look     []object.Path
		drifted  string
	}{
		"Nothing has changed": {reason: "no field is left to other managers", policy: ignore, change: owns("a", "b"), want: plan.Keep},
		"All fields are corrected by default": {
			reason: "it is the default", change: owns(), want: plan.Correct, lost: []object.Path{a, b},
		},
		"All fields are ignored": {reason: "another manager has them", policy: ignore, change: owns(), want: plan.Keep},
		"One field is ignored, and has changed": {
			reason: "an autoscaler may set it", policy: ignore, paths: []string{"data.a"}, change: owns("b"), want: plan.Keep,
		},
		"One field is ignored, and another has changed": {
			reason: "other fields are corrected", policy: ignore, paths: []string{"data.a"}, change: owns("a"), want: plan.Correct, lost: []object.Path{b},
		},
		"One field is ignored, and both have changed": {
			reason: "the correction must leave out the ignored field", policy: ignore, paths: []string{"data.a"}, change: owns(),
			want: plan.Correct, lost: []object.Path{b}, omit: []object.Path{a},
		},
		"One field is ignored, and the desired state changes": {
			reason: "the update leaves it out", policy: ignore, paths: []string{"data.a"}, change: owns("b"), other: true, want: plan.Update, omit: []object.Path{a},
		},
		"One field is ignored, and no other manager has it": {
			reason: "it is applied until another manager sets it", policy: ignore, paths: []string{"data.a"}, change: owns("a", "b"), other: true, want: plan.Update,
		},
		"Fields that mark the owner are never left to other managers": {
			reason: "the object would be lost", policy: ignore, change: unlabelled, want: plan.Correct,
			lost: []object.Path{
				`metadata.labels["app.kubernetes.io/managed-by"]`, `metadata.labels["applyset.kubernetes.io/part-of"]`,
				`metadata.labels["kro.run/instance-group"]`, `metadata.labels["kro.run/instance-id"]`, `metadata.labels["kro.run/instance-kind"]`,
				`metadata.labels["kro.run/instance-name"]`, `metadata.labels["kro.run/instance-namespace"]`, `metadata.labels["kro.run/instance-version"]`,
				`metadata.labels["kro.run/kro-version"]`, `metadata.labels["kro.run/node-id"]`, `metadata.labels["kro.run/owned"]`,
			},
		},
		"A field is to be inspected": {
			reason: "first its managers are read", policy: warn, change: owns("b"), want: plan.Keep, look: []object.Path{a},
		},
		"Drift is reported": {
			reason: "its managers were read", policy: warn, change: owns("b"), sighting: &plan.Inspection{Digest: glance("1"), Drifted: []object.Path{a}, Managers: "meddler"},
			want: plan.Keep, drifted: "a: data.a of ConfigMap prod/x is set by meddler, and is kept (driftPolicy: Warn)",
		},
		"A field that the server never granted": {
			reason: "the server doesn't let us own it", policy: warn, change: owns("b"), sighting: &plan.Inspection{Digest: glance("1")}, want: plan.Keep,
		},
		"Another field has changed since the inspection": {
			reason: "the inspection is out of date", policy: warn, change: owns(), sighting: &plan.Inspection{Digest: glance("1"), Drifted: []object.Path{a}},
			want: plan.Keep, look: []object.Path{a, b},
		},
		"A field has changed again since the inspection": {
			reason: "another manager may have it now", policy: warn, change: owns("b"), sighting: &plan.Inspection{Digest: glance("7"), Drifted: []object.Path{a}},
			want: plan.Keep, look: []object.Path{a},
		},
		"A field was to be inspected, and the desired object changes": {
			reason: "the update sets all fields", policy: warn, change: owns("b"), other: true, want: plan.Update,
		},
		"One field is to be inspected, and another corrected": {
			reason: "the correction must leave out the other", policy: warn, paths: []string{"data.a"}, change: owns(), want: plan.Correct,
			lost: []object.Path{b}, omit: []object.Path{a},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := wants("a", 0, "x")
			node.Object.Object["data"] = map[string]any{"a": "1", "b": "2"}
			node = has(node, tc.change)
			if tc.other {
				node.Object.Object["data"].(map[string]any)["c"] = "3"
			}
			node.Drift = plan.Drift{Policy: tc.policy, Paths: patterns(t, tc.paths...)}
			history := plan.History{}
			if tc.sighting != nil {
				history.Inspections = plan.Inspections{node.Observed.GetUID(): *tc.sighting}
			}
			p := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Instance: instance(), Now: now}, history, owner, v1alpha1.ChildManager)
			step := p.Steps[0]
			if step.Action != tc.want || step.DriftMessage != tc.drifted {
				t.Errorf("%s: %s, and the message is %q", tc.reason, step.Action, step.DriftMessage)
			}
			for what, diff := range map[string]string{
				"lost": cmp.Diff(tc.lost, step.LostFields), "omitted": cmp.Diff(tc.omit, step.OmitFields), "to look at": cmp.Diff(tc.look, step.InspectFields),
			} {
				if diff != "" {
					t.Errorf("%s: %s: -want +got:\n%s", tc.reason, what, diff)
				}
			}
			if s := plan.Summarize(p, now); s.Drifted != tc.drifted || (tc.drifted != "" && s.State != v1alpha1.InstanceActive) {
				t.Errorf("the summary is %s and tells %q", s.State, s.Drifted)
			}
		})
	}
}

// TestARefusedApplyIsRepeatedAfterAChange goes on after somebody else's field
// was in the way.
func TestARefusedApplyIsRepeatedAfterAChange(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*plan.Node)
		want   plan.Action
	}{
		"Nothing has changed":                   {"the apply would be refused again", func(*plan.Node) {}, plan.Defer},
		"The value of the object has changed":   {"the conflict may be over", func(n *plan.Node) { n.Observed.Object["data"] = map[string]any{} }, plan.Update},
		"A label has changed":                   {"the conflict may be about it", func(n *plan.Node) { n.Observed.SetLabels(nil) }, plan.Update},
		"The desired state has changed":         {"the new desired state may not conflict", func(n *plan.Node) { n.Object.Object["data"] = map[string]any{"a": "d"} }, plan.Update},
		"Only the status has changed":           {"fields of the status aren't applied", func(n *plan.Node) { n.Observed.Object["status"] = map[string]any{"x": "y"} }, plan.Defer},
		"Only the resource version has changed": {"each write of the status changes it", func(n *plan.Node) { n.Observed.SetResourceVersion("77") }, plan.Defer},
		"It is another object":                  {"no other manager has its fields", func(n *plan.Node) { n.Observed.SetUID("another") }, plan.Update},
		"The policy has changed":                {"conflicts are forced now", func(n *plan.Node) { n.RefuseConflicts = false }, plan.Update},
		"The last-applied annotation of kubectl is missing": {"caches drop it", func(n *plan.Node) {
			n.Observed.SetAnnotations(without(n.Observed.GetAnnotations(), "kubectl.kubernetes.io/last-applied-configuration"))
		}, plan.Defer},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := has(wants("a", 0, "x"))
			node.RefuseConflicts = true
			node.Object.Object["data"] = map[string]any{"a": "c"}
			annotations := node.Observed.GetAnnotations()
			annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
			node.Observed.SetAnnotations(annotations)
			wanted := node.Object.DeepCopy()
			owner.Mark(wanted, inventory.Place{Node: "a"})
			history := plan.History{Refusals: plan.Refusals{node.Observed.GetUID(): {
				DesiredDigest: inventory.AppliedDigest(wanted), LiveDigest: plan.ContentDigest(node.Observed), Problem: plan.FieldConflictProblem(node.Observed, []string{"data.a"}, "meddler"),
			}}}
			tc.change(&node)
			p := plan.Compute(plan.Desired{Nodes: []plan.Node{node}}, plan.Facts{Instance: instance(), Now: now}, history, owner, v1alpha1.ChildManager)
			step := p.Steps[0]
			if step.Action != tc.want || step.RefuseConflicts != node.RefuseConflicts {
				t.Errorf("%s: %s", tc.reason, step.Action)
			}
			if step.Action == plan.Defer && step.Problem.Reason != plan.FieldConflict {
				t.Errorf("the reason is %s", step.Problem.Reason)
			}
		})
	}
}

func without(m map[string]string, key string) map[string]string {
	delete(m, key)
	return m
}

func TestFieldsThatMayBeNamedAfterASecretAreNotShown(t *testing.T) {
	fields := []object.Path{"data.hunter2"}
	if got := (plan.Step{SecretFields: true}).DescribeFields(fields); strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	if got := (plan.Step{}).DescribeFields(fields); got != "data.hunter2" {
		t.Error(got)
	}
}

func TestAConflictNamesTheFirstFields(t *testing.T) {
	for n, want := range map[int]string{
		0: "fields of ConfigMap", 1: "data.k0 of ConfigMap", 5: "data.k0, data.k1, data.k2, data.k3, data.k4 of ConfigMap",
		6: "data.k0, data.k1, data.k2, data.k3, data.k4 and 1 more of ConfigMap",
	} {
		fields := make([]string, n)
		for i := range fields {
			fields[i] = fmt.Sprintf("data.k%d", i)
		}
		if got := plan.FieldConflictProblem(has(wants("a", 0, "x")).Observed, fields, "meddler").Message; !strings.HasPrefix(got, want) {
			t.Errorf("of %d fields: %s", n, got)
		}
	}
}
