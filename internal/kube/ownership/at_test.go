package ownership_test

import (
	"encoding/json"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/kube/ownership"
)

func TestEntriesAt(t *testing.T) {
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(`{"metadata": {"labels": {"a": "1", "b": "2"}, "managedFields": [
		{"manager": "empty", "fieldsV1": {"f:metadata": {"f:labels": {}}, "f:spec": {"f:atomic": {}}}},
		{"manager": "adds", "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}}},
		{"manager": "both", "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}}
	]}, "spec": {"atomic": {"x": {"y": 1}}}}`), &o.Object); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		path []any
		want []string
	}{
		"a key belongs to who has set it, not to who has written the empty map": {[]any{"metadata", "labels", "a"}, []string{"adds", "both"}},
		"what is in an atomic map belongs to its manager":                       {[]any{"spec", "atomic", "x", "y"}, []string{"empty"}},
		"a map belongs to all who have set something in it":                     {[]any{"metadata", "labels"}, []string{"empty", "adds", "both"}},
		"nobody has set it": {[]any{"spec", "other"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, e := range ownership.EntriesAt(o, tc.path) {
				got = append(got, e.Manager)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
