package archive

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// passing are labels and annotations that controllers write again whenever they are
// of another incarnation or version.
var passing = []string{
	v1alpha1.VersionLabel, v1alpha1.DefinitionIDLabel, v1alpha1.InstanceIDLabel,
	v1alpha1.AppliedAnnotation, v1alpha1.ApplySetToolingAnnotation, v1alpha1.ApplySetKindsAnnotation,
	v1alpha1.ApplySetNamespacesAnnotation, v1alpha1.ApplySetHashAnnotation, v1alpha1.DeletionDefaultsAnnotation,
	espalier.ImportAnnotation, v1alpha1.ServedAnnotation, deletingAnnotation, "kubectl.kubernetes.io/last-applied-configuration",
}

// Differences are the fields in which an object that is there differs from an
// exported one, sorted, without their values, which may be secret. Labels and
// annotations that others have added don't count.
func Differences(wanted, there *unstructured.Unstructured) []string {
	var out []string
	content := func(o *unstructured.Unstructured) map[string]any {
		c := maps.Clone(o.Object)
		for _, field := range []string{"apiVersion", "kind", "status", "metadata"} {
			delete(c, field)
		}
		if spec, ok := c["spec"].(map[string]any); ok && o.GroupVersionKind().GroupKind() == revisionKind {
			spec = maps.Clone(spec)
			delete(spec, "revision") // the import sees to it that it is the greater of both
			c["spec"] = spec
		}
		return c
	}
	out = append(out, differ("", content(wanted), content(there))...)
	out = append(out, differTexts("metadata.labels", wanted.GetLabels(), there.GetLabels())...)
	out = append(out, differTexts("metadata.annotations", wanted.GetAnnotations(), there.GetAnnotations())...)
	slices.Sort(out)
	return out
}

func differTexts(path string, wanted, there map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if is, ok := there[key]; (!ok || is != wanted[key]) && !slices.Contains(passing, key) {
			out = append(out, path+"["+key+"]")
		}
	}
	return out
}

func differ(path string, wanted, there any) []string {
	want, isMap := wanted.(map[string]any)
	is, wasMap := there.(map[string]any)
	if !(isMap || wanted == nil) || !(wasMap || there == nil) || !isMap && !wasMap {
		if object.Digest(wanted) == object.Digest(there) {
			return nil
		}
		return []string{path}
	}
	keys := maps.Clone(want)
	if keys == nil {
		keys = map[string]any{}
	}
	maps.Copy(keys, is)
	var out []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		out = append(out, differ(strings.TrimPrefix(path+"."+key, "."), want[key], is[key])...)
	}
	return out
}

// By is what the import of a Hold writes on what it makes.
func By(hold *unstructured.Unstructured) string { return hold.GetName() + "/" + string(hold.GetUID()) }

// HoldName is the name of the Hold under which an export is imported.
func HoldName(id string) string { return "import-" + id }

// ImportedFrom says whether an object was made by an import of this export, whenever.
func ImportedFrom(o *unstructured.Unstructured, id string) bool {
	name, _, _ := strings.Cut(o.GetAnnotations()[espalier.ImportAnnotation], "/")
	return name == HoldName(id)
}
