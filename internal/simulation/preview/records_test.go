package preview

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecordsAreCompared(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason        string
		before, after string
		want          []string
	}{
		"nothing": {
			"resource versions and times are not compared",
			"metadata: {resourceVersion: '1', managedFields: [{manager: a, operation: Apply, time: '2026-01-01T00:00:00Z', fieldsV1: {'f:data': {}}}]}",
			"metadata: {resourceVersion: '2', managedFields: [{manager: a, operation: Apply, time: '2026-01-02T00:00:00Z', fieldsV1: {'f:data': {}}}]}",
			nil,
		},
		"a removed manager, and another that gains its fields": {
			"the fields change hands; a digest is shortened",
			"metadata: {managedFields: [{manager: apiextensions.crossplane.io/composed/e9b30d92e4cbf0f7, operation: Update, fieldsV1: {'f:data': {'f:a': {}}}}]}",
			"metadata: {managedFields: [{manager: ours, operation: Apply, fieldsV1: {'f:data': {'f:a': {}}}}]}",
			[]string{`metadata.managedFields: "apiextensions.crossplane.io/composed/e9b30d92… (Update)" → "ours"`},
		},
		"a removed manager, and another that owned its fields before": {
			"a manager that gains no fields does not follow the removed one",
			"metadata: {managedFields: [{manager: former, operation: Apply, fieldsV1: {'f:a': {}}}, {manager: ours, operation: Apply, fieldsV1: {'f:a': {}}}]}",
			"metadata: {managedFields: [{manager: ours, operation: Apply, fieldsV1: {'f:a': {}}}]}",
			[]string{`metadata.managedFields: "former" removed`},
		},
		"a manager of the status": {
			"it is distinct from a manager of the object",
			"metadata: {managedFields: [{manager: a, operation: Update, fieldsV1: {'f:a': {}}}]}",
			"metadata: {managedFields: [{manager: a, operation: Update, fieldsV1: {'f:a': {}}}, {manager: a, operation: Update, subresource: status, fieldsV1: {'f:status': {}}}]}",
			[]string{`metadata.managedFields: set to "a (Update) on status"`},
		},
		"an owner and a finalizer": {
			"they are names, and shown",
			"metadata: {finalizers: [f], ownerReferences: [{kind: Parent, name: p, uid: u}]}",
			"metadata: {ownerReferences: [{kind: Parent, name: p, uid: v}, {kind: Other, name: p, uid: w}]}",
			[]string{`metadata.finalizers: ["f"] removed`, `metadata.ownerReferences["Other/p"]: set to {"uid":"w"}`,
				`metadata.ownerReferences["Parent/p"].uid: "u" → "v"`},
		},
		"labels and annotations": {
			"the plan has keys, and no values",
			"metadata: {labels: {a: x, b: x}, annotations: {c: secret}}",
			"metadata: {labels: {a: z}, annotations: {espalier.dev/applied: secret}}",
			[]string{"metadata.annotations.c: removed (hidden)", `metadata.annotations["espalier.dev/applied"]: set (hidden)`,
				"metadata.labels.a: changed (hidden)", "metadata.labels.b: removed (hidden)"},
		},
		"other fields": {
			"the plan has paths, and no values",
			"metadata: {generateName: a-}\nspec: {size: 1, list: [1], nested: {gone: 1}}",
			"spec: {size: 2, list: [1, 2], nested: {'a.b': 1}}",
			[]string{"metadata.generateName: removed (hidden)", "spec.list: changed (hidden)", `spec.nested["a.b"]: set (hidden)`,
				"spec.nested.gone: removed (hidden)", "spec.size: changed (hidden)"},
		},
		"an empty text": {
			"it is a value: kro stores it for an optional without one, and it is removed",
			"metadata: {labels: {team: ''}}\ndata: {a: '', k: v}",
			"data: {k: v}",
			[]string{"data.a: removed (hidden)", "metadata.labels.team: removed (hidden)"},
		},
		"conditions": {
			"status and reason are compared, messages are not",
			"status: {conditions: [{type: Ready, status: 'True', reason: Available, message: a}, {type: Synced, status: 'True', message: a}, {type: Responsive, status: 'True'}]}",
			"status: {conditions: [{type: Ready, status: 'False', reason: Creating}, {type: Synced, status: 'True', message: b}, {type: example.org/New, status: 'True'}]}",
			[]string{`status.conditions.Ready: "True (Available)" → "False (Creating)"`, `status.conditions.Responsive: "True" removed`,
				`status.conditions["example.org/New"]: set to "True"`},
		},
		"the rest of a status": {
			"each field is compared as a whole",
			"status: {a: {x: 1}, b: 1, conditionsOf: x}",
			"status: {a: {x: 2}, c: 1, conditionsOf: y}",
			[]string{"status.a: changed (hidden)", "status.b: removed (hidden)", "status.c: set (hidden)", "status.conditionsOf: changed (hidden)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			const head = "apiVersion: v1\nkind: Thing\n"
			var got []string
			for _, f := range diffRecords(parse(t, head+tc.before), parse(t, head+tc.after)) {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
