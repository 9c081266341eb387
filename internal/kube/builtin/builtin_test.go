package builtin

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestOptionalFieldsExist fails when Kubernetes renames a type, or no longer calls a field required.
func TestOptionalFieldsExist(t *testing.T) {
	groups := map[string]string{"core": "", "batch": "batch", "storage": "storage.k8s.io"}
	for name, fields := range optional {
		group, rest, _ := strings.Cut(name, ".")
		version, _, _ := strings.Cut(rest, ".")
		gv := schema.GroupVersion{Group: groups[group], Version: version}
		var document Document
		load().decode(FileOf(gv), &document)
		original, adapted := document.Components.Schemas["io.k8s.api."+name], Types(gv)["io.k8s.api."+name]
		if original == nil || adapted == nil {
			t.Errorf("%s is not in %s", name, FileOf(gv))
			continue
		}
		for _, field := range fields {
			if !slices.Contains(original.Required, field) || slices.Contains(adapted.Required, field) {
				t.Errorf("%s.%s: required in the document: %v; here: %v", name, field, original.Required, adapted.Required)
			}
		}
	}
}
