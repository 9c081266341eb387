package archive

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/object"
)

// Check returns all inconsistencies within an export. If names are invalid, it returns only
// these, since nothing else about the objects can be reported.
func (f File) Check() []string {
	if invalid := f.invalidNames(); len(invalid) > 0 {
		return invalid
	}
	var out []string
	counts, seen := map[string]int{}, map[object.Key]bool{}
	for _, o := range f.Objects() {
		key := object.KeyOf(o)
		counts[CountName(key.GroupKind())]++
		switch {
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
			if !isPrintable(kind) {
				kind = quote(kind)
			}
			out = append(out, fmt.Sprintf("%s of %s, but the header counts %d: the file was truncated or changed", diag.Counted(got, "object", "objects"), kind, want))
		}
	}
	reserved := map[string]object.Key{}
	for _, b := range f.Sections[Bindings] {
		owner, _ := Owner(b)
		for _, what := range Reserves(b) {
			if by, taken := reserved[what]; taken && by != owner {
				out = append(out, fmt.Sprintf("%s: %s is reserved by %s and by %s", object.KeyOf(b), what, by, owner))
			}
			reserved[what] = owner
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

// invalidNames returns the objects, and the header's id, with names that no object can have.
func (f File) invalidNames() []string {
	var out []string
	if len(validation.IsDNS1123Subdomain(HoldName(f.Header.ID))) > 0 {
		out = append(out, "the header has an invalid id: "+quote(f.Header.ID))
	}
	for _, o := range f.Objects() {
		key := object.KeyOf(o)
		if key.Kind == "" || key.Name == "" || o.GetAPIVersion() == "" {
			out = append(out, fmt.Sprintf("a document has no apiVersion, kind or name: %s", quote(key.String())))
		} else if why := nameProblem(key); why != "" {
			out = append(out, why)
		} else if len(validation.IsDNS1035Label(o.GroupVersionKind().Version)) > 0 {
			out = append(out, fmt.Sprintf("%s has an invalid apiVersion: %s", key, quote(o.GetAPIVersion())))
		}
		owner, _ := Owner(o)
		if o.GroupVersionKind().GroupKind() == bindingKind && owner.Name != "" {
			if why := nameProblem(owner); why != "" {
				out = append(out, why)
			}
		}
	}
	if n := len(out); n > maxProblems {
		out = append(out[:maxProblems], fmt.Sprintf("and %d more", n-maxProblems))
	}
	return out
}

// MayFollow reports whether an export follows a reference to a Secret: not out of the selected
// namespaces, and not out of the namespace of the object that refers to it, whose author may
// have no permissions elsewhere.
func MayFollow(from *unstructured.Unstructured, namespace string, selection Selection) bool {
	return selection.IncludesNamespace(namespace) && (from.GetNamespace() == "" || from.GetNamespace() == namespace)
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
