package report_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

type props = map[string]apiextensionsv1.JSONSchemaProps

func author(fields props) *apiextensionsv1.JSONSchemaProps {
	return &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: fields}
}

func TestAuthorsFieldsReplaceTheEngines(t *testing.T) {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	ours := map[string]string{"state": "string", "conditions": "array", "waiting": "array", "deletion": "object", "pruning": "array", "skipped": "array", "problems": "array", "observedGeneration": "integer"}
	whole := report.AllFields
	whole.Skipped = true
	with := func(more map[string]string) map[string]string {
		out := map[string]string{}
		for _, in := range []map[string]string{ours, more} {
			for field, kind := range in {
				out[field] = kind
			}
		}
		return out
	}
	cases := map[string]struct {
		author *apiextensionsv1.JSONSchemaProps
		want   map[string]string
		fields report.FieldSet
	}{
		"Only the engine's fields":                      {nil, ours, whole},
		"The engine's fields are added to the author's": {author(props{"id": text}), with(map[string]string{"id": "string"}), whole},
		"An author's field waiting replaces the engine's": {
			author(props{"waiting": text}), with(map[string]string{"waiting": "string"}), report.FieldSet{Deletion: true, Pruning: true, Problems: true, Skipped: true, ObservedGeneration: true},
		},
		"An author's field deletion replaces the engine's": {
			author(props{"deletion": text}), with(map[string]string{"deletion": "string"}), report.FieldSet{Waiting: true, Pruning: true, Problems: true, Skipped: true, ObservedGeneration: true},
		},
		"An author's field problems replaces the engine's": {
			author(props{"problems": text}), with(map[string]string{"problems": "string"}), report.FieldSet{Waiting: true, Deletion: true, Pruning: true, Skipped: true, ObservedGeneration: true},
		},
		"An author's field skipped replaces the engine's": {
			author(props{"skipped": text}), with(map[string]string{"skipped": "string"}), report.AllFields,
		},
		"An author's field observedGeneration replaces the engine's": {
			author(props{"observedGeneration": text}), with(map[string]string{"observedGeneration": "string"}), report.FieldSet{Waiting: true, Deletion: true, Pruning: true, Problems: true, Skipped: true},
		},
		"An author's state and conditions are replaced": {author(props{"state": {Type: "integer"}, "conditions": text}), ours, whole},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for field, s := range report.Schema(tc.author).Properties {
				got[field] = s.Type
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if diff := cmp.Diff(tc.fields, report.UndeclaredFields(tc.author)); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNewObjectsAreNotComplete has the default of the status.
func TestNewObjectsAreNotComplete(t *testing.T) {
	const unobserved = `{"observedGeneration":-1}`
	integer := apiextensionsv1.JSONSchemaProps{Type: "integer"}
	required, ruled := author(props{"id": integer}), author(props{"id": integer})
	required.Required, ruled.XValidations = []string{"id"}, apiextensionsv1.ValidationRules{{Rule: "has(self.id)"}}
	for name, tc := range map[string]struct {
		author *apiextensionsv1.JSONSchemaProps
		want   string
	}{
		"no generation is observed":                       {author(props{"id": integer}), unobserved},
		"a kind without fields of the author's":           {nil, unobserved},
		"the field is the author's":                       {author(props{"observedGeneration": integer}), ""},
		"the default would lack a required field":         {required, ""},
		"the author's rules might not accept the default": {ruled, ""},
	} {
		got := ""
		if d := report.Schema(tc.author).Default; d != nil {
			got = string(d.Raw)
		}
		if got != tc.want {
			t.Errorf("%s: want %q, got %q", name, tc.want, got)
		}
	}
}

func example() report.Status {
	at := metav1.NewTime(time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC))
	held := report.BlockedObject{
		Object: report.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "prod", Name: "data"},
		Reason: report.HeldByFinalizer, Message: "held", Since: report.At(at.Time.Add(1234567 * time.Microsecond)),
		Finalizers: []report.Finalizer{{Name: "example.com/guard", Managers: []string{"kubectl-edit"}}},
	}
	return report.Status{
		State:      v1alpha1.InstanceDeleting,
		Conditions: condition.Set{{Type: "Ready", Status: condition.False, Reason: "Deleting", LastTransitionTime: &at, ObservedGeneration: 3}},
		Waiting:    []report.Waiting{{Node: "a", Reason: "WaitingForField", On: "b.status.c", Since: report.At(at.Time), Attempts: 2}},
		Deletion: &report.Deletion{
			StartedAt: report.At(at.Time), Policy: report.Background, Total: 5, Removed: 2, Remaining: 3, Percent: 40, Progress: "2/5", Wave: 2, Waves: 3, Blocked: 1,
			Blockers: []report.Blocker{{
				Node:          "low",
				BlockedObject: report.BlockedObject{Object: report.Object{APIVersion: "a/v1", Kind: "Low", Name: "x"}, Reason: report.ChildBlocked, Message: "waits", Since: held.Since},
				Cause:         &held,
			}},
		},
		Pruning:  []report.Blocker{{Node: "old", BlockedObject: report.BlockedObject{Object: held.Object, Reason: report.Deleting, Message: "is going", Since: held.Since}}},
		Problems: []report.Problem{{Node: "web", Reason: "Rejected", Message: "update rejected: no", Since: report.At(at.Time)}},
	}
}

func TestARenderedStatusIsReadAgain(t *testing.T) {
	said := example()
	o := &unstructured.Unstructured{Object: map[string]any{"status": said.Render(map[string]any{"id": "vpc-1"}, report.AllFields)}}
	if diff := cmp.Diff(said, report.Read(o.DeepCopy())); diff != "" { // the copy finds what an API machinery can't hold
		t.Errorf("-written +read:\n%s", diff)
	}
	if id, _, _ := unstructured.NestedString(o.Object, "status", "id"); id != "vpc-1" {
		t.Error("the author's field is gone")
	}
}

func TestUndeclaredFieldsOnlyAreWritten(t *testing.T) {
	own := map[string]any{"waiting": "mine", "deletion": "mine", "pruning": "mine", "problems": "mine"}
	got := example().Render(own, report.FieldSet{})
	for field, want := range own {
		if got[field] != want {
			t.Errorf("%s is %v", field, got[field])
		}
	}
}

func TestMalformedFieldsAreIgnored(t *testing.T) {
	for name, value := range map[string]any{
		"a text": "soon", "a list of texts": []any{"a"}, "a map of another form": map[string]any{"startedAt": int64(3)}, "nothing": nil, "empty": map[string]any{},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"deletion": value, "waiting": value, "pruning": value, "problems": value}}}
		if got := report.ReadDeletion(o); got != nil {
			t.Errorf("%s: a deletion is read: %v", name, got)
		}
		if got := report.ReadPruning(o); len(got) > 0 {
			t.Errorf("%s: something is pruned: %v", name, got)
		}
		if got := report.ReadWaiting(o); len(got) > 0 {
			t.Errorf("%s: waits are read: %v", name, got)
		}
		if got := report.ReadProblems(o); len(got) > 0 {
			t.Errorf("%s: problems are read: %v", name, got)
		}
	}
}

func TestFieldsWithoutValueAreRemoved(t *testing.T) {
	before := example().Render(nil, report.AllFields)
	got := report.Status{State: v1alpha1.InstanceActive}.Render(before, report.AllFields)
	for _, field := range []string{report.WaitingField, report.DeletionField, report.PruningField, report.ProblemsField} {
		if _, there := got[field]; there {
			t.Errorf("%s is still in the status", field)
		}
	}
}
