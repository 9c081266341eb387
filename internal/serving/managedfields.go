package serving

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// The API server refuses to apply an object while an entry has a version that the kind no longer has, and an update
// then drops all entries. A field of another name in the version has no manager afterwards, as if it had been
// converted.
func inVersion(entries []metav1.ManagedFieldsEntry, apiVersion string) (out []metav1.ManagedFieldsEntry, changed bool) {
	for _, e := range entries {
		changed = changed || e.APIVersion != apiVersion
		e.APIVersion = apiVersion
		same := slices.IndexFunc(out, func(o metav1.ManagedFieldsEntry) bool {
			return o.Manager == e.Manager && o.Operation == e.Operation && o.Subresource == e.Subresource
		})
		if same < 0 {
			out = append(out, e)
			continue
		}
		if both, ok := union(out[same].FieldsV1, e.FieldsV1); ok {
			out[same].FieldsV1 = both
		}
		if out[same].Time.Before(e.Time) {
			out[same].Time = e.Time
		}
	}
	return out, changed
}

func union(a, b *metav1.FieldsV1) (out *metav1.FieldsV1, ok bool) {
	var sets [2]fieldpath.Set
	for i, fields := range []*metav1.FieldsV1{a, b} {
		if fields == nil || sets[i].FromJSON(fields.GetRawReader()) != nil {
			return nil, false
		}
	}
	raw, err := sets[0].Union(&sets[1]).ToJSON()
	return metav1.NewFieldsV1(string(raw)), err == nil
}
