package instance

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/report"
)

// managersOf names, sorted, the managers of a field of an object's metadata, such
// as finalizers and one of them, as its managed fields tell.
func managersOf(live *unstructured.Unstructured, field, key string) []string {
	var names []string
	for _, entry := range live.GetManagedFields() {
		if entry.FieldsV1 == nil || slices.Contains(names, entry.Manager) {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, has, _ := unstructured.NestedFieldNoCopy(fields, "f:metadata", "f:"+field, key); has {
			names = append(names, entry.Manager)
		}
	}
	slices.Sort(names)
	return names
}

// finalizersOf lists an object's finalizers with those who put them on.
func finalizersOf(live *unstructured.Unstructured) []report.Finalizer {
	var out []report.Finalizer
	for _, name := range live.GetFinalizers() {
		quoted, err := json.Marshal(name)
		if err != nil {
			continue
		}
		out = append(out, report.Finalizer{Name: name, Managers: managersOf(live, "finalizers", "v:"+string(quoted))})
	}
	return out
}
