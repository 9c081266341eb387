package archive

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/object"
)

// Check returns all inconsistencies within an export.
func (f File) Check() []string {
	var out []string
	counts, seen := map[string]int{}, map[object.Key]bool{}
	for _, o := range f.Objects() {
		key := object.KeyOf(o)
		counts[CountName(key.GroupKind())]++
		switch {
		case key.Kind == "" || key.Name == "" || o.GetAPIVersion() == "":
			out = append(out, fmt.Sprintf("a document has no apiVersion, kind or name: %q", key))
		case seen[key]:
			out = append(out, fmt.Sprintf("%s appears twice", key))
		}
		seen[key] = true
	}
	names := maps.Clone(f.Header.Counts)
	if names == nil {
		names = map[string]int{}
	}
	maps.Copy(names, counts)
	for _, kind := range slices.Sorted(maps.Keys(names)) {
		if want, got := f.Header.Counts[kind], counts[kind]; want != got {
			out = append(out, fmt.Sprintf("%d objects of %s, but the header counts %d: the file was truncated or changed", got, kind, want))
		}
	}
	for _, b := range f.Sections[Bindings] {
		if owner, uid := Owner(b); owner.Name == "" || uid == "" {
			out = append(out, fmt.Sprintf("%s has no spec.owner with name and uid", object.KeyOf(b)))
		} else if !seen[owner] && !ReservesKey(b) {
			out = append(out, fmt.Sprintf("%s belongs to %s, which is not in the export", object.KeyOf(b), owner))
		}
	}
	return out
}

// SecretsOf returns the Secrets that a provider configuration refers to, or that a composition
// passes to functions, as namespace and name. The default is the configuration's namespace.
func SecretsOf(config *unstructured.Unstructured) [][2]string {
	if isComposition(config) {
		return credentials(config)
	}
	var out [][2]string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				ref, isMap := v[key].(map[string]any)
				name, _ := ref["name"].(string)
				if isMap && name != "" && (key == "secretRef" || key == "secretKeyRef") {
					namespace, _ := ref["namespace"].(string)
					if namespace == "" {
						namespace = config.GetNamespace()
					}
					out = append(out, [2]string{namespace, name})
					continue
				}
				walk(v[key])
			}
		case []any:
			for _, item := range v {
				walk(item)
			}
		}
	}
	walk(config.Object["spec"])
	return out
}
