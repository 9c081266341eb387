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

// volatileKeys are the labels and annotations that depend on UIDs or on the program's version.
// Controllers update them.
var volatileKeys = []string{
	v1alpha1.VersionLabel, v1alpha1.DefinitionIDLabel, v1alpha1.InstanceIDLabel,
	v1alpha1.AppliedAnnotation, v1alpha1.SignatureAnnotation, v1alpha1.ApplySetToolingAnnotation, v1alpha1.ApplySetKindsAnnotation,
	v1alpha1.ApplySetNamespacesAnnotation, v1alpha1.ApplySetHashAnnotation, v1alpha1.DeletionDefaultsAnnotation,
	espalier.ImportAnnotation, v1alpha1.ServedAnnotation, deletingAnnotation, "kubectl.kubernetes.io/last-applied-configuration",
}

// Differences returns the paths of the fields in which a live object differs from an exported
// one, sorted. It returns no values, which may be secret. Additional labels and annotations of
// the live object are ignored.
func Differences(wanted, live *unstructured.Unstructured) []string {
	var out []string
	content := func(o *unstructured.Unstructured) map[string]any {
		c := maps.Clone(o.Object)
		for _, field := range []string{"apiVersion", "kind", "status", "metadata"} {
			delete(c, field)
		}
		if spec, ok := c["spec"].(map[string]any); ok && o.GroupVersionKind().GroupKind() == revisionKind {
			spec = maps.Clone(spec)
			delete(spec, "revision") // the import raises it to the greater of both
			c["spec"] = spec
		}
		return c
	}
	out = append(out, diffValues("", content(wanted), content(live))...)
	out = append(out, diffMaps("metadata.labels", wanted.GetLabels(), live.GetLabels())...)
	out = append(out, diffMaps("metadata.annotations", wanted.GetAnnotations(), live.GetAnnotations())...)
	slices.Sort(out)
	return out
}

func diffMaps(path string, wanted, live map[string]string) []string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if value, ok := live[key]; (!ok || value != wanted[key]) && !slices.Contains(volatileKeys, key) {
			out = append(out, path+"["+key+"]")
		}
	}
	return out
}

func diffValues(path string, wanted, live any) []string {
	wantedMap, isWantedMap := wanted.(map[string]any)
	liveMap, isLiveMap := live.(map[string]any)
	if !(isWantedMap || wanted == nil) || !(isLiveMap || live == nil) || !isWantedMap && !isLiveMap {
		if object.Digest(wanted) == object.Digest(live) {
			return nil
		}
		return []string{path}
	}
	keys := maps.Clone(wantedMap)
	if keys == nil {
		keys = map[string]any{}
	}
	maps.Copy(keys, liveMap)
	var out []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		out = append(out, diffValues(strings.TrimPrefix(path+"."+key, "."), wantedMap[key], liveMap[key])...)
	}
	return out
}

// ImportedBy returns the value of the import annotation for a Hold.
func ImportedBy(hold *unstructured.Unstructured) string {
	return hold.GetName() + "/" + string(hold.GetUID())
}

// HoldName returns the name of the Hold of an export's import.
func HoldName(id string) string { return "import-" + id }

// CreatedBy reports whether the import with a Hold has created an object: it has the UID of the
// Hold, which the API server has assigned, and is not older than the Hold. So neither an archive
// nor the annotation of an object that existed before can make an object one of the import's.
func CreatedBy(o, hold *unstructured.Unstructured) bool {
	created := o.GetCreationTimestamp()
	return hold != nil && o.GetAnnotations()[espalier.ImportAnnotation] == ImportedBy(hold) &&
		(created.IsZero() || !created.Time.Before(hold.GetCreationTimestamp().Time))
}
