package serving

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func entry(manager string, operation metav1.ManagedFieldsOperationType, version, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: "example.org/" + version, Subresource: subresource,
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)},
	}
}

func TestManagedFieldsMoveToOneVersion(t *testing.T) {
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	size, count, both := `{"f:spec":{"f:size":{}}}`, `{"f:spec":{"f:count":{}}}`, `{"f:spec":{"f:count":{},"f:size":{}}}`
	cases := map[string]struct {
		reason        string
		entries, want []metav1.ManagedFieldsEntry
		changed       bool
	}{
		"All have the version": {
			"nothing is written",
			[]metav1.ManagedFieldsEntry{entry("a", apply, "v1", "", size)}, []metav1.ManagedFieldsEntry{entry("a", apply, "v1", "", size)}, false,
		},
		"One has a former version": {
			"it manages the same fields",
			[]metav1.ManagedFieldsEntry{entry("a", apply, "v1alpha1", "", size), entry("b", update, "v1", "status", count)},
			[]metav1.ManagedFieldsEntry{entry("a", apply, "v1", "", size), entry("b", update, "v1", "status", count)}, true,
		},
		"A manager has one in each version": {
			"the API server keeps one entry for a manager, operation, version and subresource",
			[]metav1.ManagedFieldsEntry{entry("a", update, "v1alpha1", "", size), entry("a", update, "v1", "", count), entry("a", update, "v1", "status", size)},
			[]metav1.ManagedFieldsEntry{entry("a", update, "v1", "", both), entry("a", update, "v1", "status", size)}, true,
		},
	}
	for name, tc := range cases {
		got, changed := inVersion(tc.entries, "example.org/v1")
		if diff := cmp.Diff(tc.want, got); diff != "" || changed != tc.changed {
			t.Errorf("%s: %s; changed is %v (-want +got):\n%s", name, tc.reason, changed, diff)
		}
	}
}
