package takeover_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/migration/takeover"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestDiff(t *testing.T) {
	const thing = "apiVersion: v1\nkind: Thing\n"
	cases := map[string]struct {
		reason        string
		before, after string
		want          []takeover.Difference
	}{
		"Nothing": {
			"resource versions and times are not compared",
			"metadata: {resourceVersion: '1', managedFields: [{manager: a, operation: Apply, time: '2026-01-01T00:00:00Z', fieldsV1: {'f:data': {}}}]}",
			"metadata: {resourceVersion: '2', managedFields: [{manager: a, operation: Apply, time: '2026-01-02T00:00:00Z', fieldsV1: {'f:data': {}}}]}",
			nil,
		},
		"A removed manager, and another that gains its fields": {
			"it is renamed",
			"metadata: {managedFields: [{manager: former, operation: Update, fieldsV1: {'f:data': {'f:a': {}}}}]}",
			"metadata: {managedFields: [{manager: ours, operation: Apply, fieldsV1: {'f:data': {'f:a': {}}}}]}",
			[]takeover.Difference{{Aspect: takeover.Managers, Renamed: []takeover.Rename{{From: "former (Update)", To: "ours"}}}},
		},
		"A removed manager, and another that owned its fields before": {
			"a manager that gains no fields is no new name of the removed one",
			"metadata: {managedFields: [{manager: former, operation: Apply, fieldsV1: {'f:a': {}}}, {manager: ours, operation: Apply, fieldsV1: {'f:a': {}}}]}",
			"metadata: {managedFields: [{manager: ours, operation: Apply, fieldsV1: {'f:a': {}}}]}",
			[]takeover.Difference{{Aspect: takeover.Managers, Removed: []string{"former"}}},
		},
		"A manager of the status": {
			"it is distinct from a manager of the object",
			"metadata: {managedFields: [{manager: a, operation: Update, fieldsV1: {'f:a': {}}}]}",
			"metadata: {managedFields: [{manager: a, operation: Update, fieldsV1: {'f:a': {}}}, {manager: a, operation: Update, subresource: status, fieldsV1: {'f:status': {}}}]}",
			[]takeover.Difference{{Aspect: takeover.Managers, Added: []string{"a (Update) on status"}}},
		},
		"Metadata": {
			"the difference has keys, and no values",
			"metadata: {labels: {a: x, b: x}, annotations: {c: secret}, finalizers: [f], ownerReferences: [{kind: Parent, name: p, uid: u}]}",
			"metadata: {labels: {a: z}, annotations: {d: secret}, ownerReferences: [{kind: Parent, name: p, uid: v}]}",
			[]takeover.Difference{
				{Aspect: takeover.Owners, Changed: []string{"Parent p"}},
				{Aspect: takeover.Finalizers, Removed: []string{"f"}},
				{Aspect: takeover.Labels, Removed: []string{"b"}, Changed: []string{"a"}},
				{Aspect: takeover.Annotations, Removed: []string{"c"}, Added: []string{"d"}},
			},
		},
		"Fields": {
			"the difference has paths, and lists are atomic",
			"spec: {size: 1, list: [1], nested: {gone: 1}}\nmetadata: {generateName: a-}",
			"spec: {size: 2, list: [1, 2], nested: {'a.b': 1}}",
			[]takeover.Difference{{
				Aspect: takeover.Fields, Removed: []string{"metadata.generateName", "spec.nested.gone"}, Added: []string{`spec.nested["a.b"]`}, Changed: []string{"spec.list", "spec.size"},
			}},
		},
		"An empty text": {
			"it is a value: kro stores it for an optional without one, and it is removed",
			"metadata: {labels: {team: ''}}\ndata: {a: '', k: v}",
			"data: {k: v}",
			[]takeover.Difference{
				{Aspect: takeover.Labels, Removed: []string{"team"}},
				{Aspect: takeover.Fields, Removed: []string{"data.a"}},
			},
		},
		"Conditions": {
			"status and reason are compared, messages are not",
			"status: {conditions: [{type: Ready, status: 'True', reason: Available, message: a}, {type: Synced, status: 'True', message: a}, {type: Responsive, status: 'True'}]}",
			"status: {conditions: [{type: Ready, status: 'False', reason: Creating}, {type: Synced, status: 'True', message: b}, {type: New, status: 'True'}]}",
			[]takeover.Difference{{
				Aspect: takeover.Conditions, Removed: []string{"Responsive"}, Changed: []string{"Ready: True (Available) → False (Creating)"}, Added: []string{"New: True"},
			}},
		},
		"The rest of a status": {
			"the difference has the names of fields",
			"status: {a: 1, b: 1}",
			"status: {a: 2, c: 1}",
			[]takeover.Difference{{Aspect: takeover.Status, Removed: []string{"b"}, Changed: []string{"a"}, Added: []string{"c"}}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := parsed(t, thing+tc.before), parsed(t, thing+tc.after)
			got := takeover.Diff(before, after)
			if len(got) == 0 {
				got = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
