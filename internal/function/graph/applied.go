package graph

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// applied is what an engine last applied of an object, so that applying it again changes
// nothing: to want less would take fields away, and to want all would take them from
// those whose they are. Where the object doesn't tell, it is all that people write.
func applied(observed *unstructured.Unstructured) *unstructured.Unstructured {
	source := runtime.DeepCopyJSON(observed.Object)
	out := &unstructured.Unstructured{Object: map[string]any{}}
	if fields := own(observed.GetManagedFields()); fields != nil {
		out.Object, _ = part(source, fields).(map[string]any)
	} else {
		out.Object = source
		delete(out.Object, "status")
	}
	metadata, _ := out.Object["metadata"].(map[string]any)
	kept := map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		if v, ok := metadata[field]; ok {
			kept[field] = v
		}
	}
	out.Object["apiVersion"], out.Object["kind"], out.Object["metadata"] = observed.GetAPIVersion(), observed.GetKind(), kept
	out.SetName(observed.GetName())
	if namespace := observed.GetNamespace(); namespace != "" {
		out.SetNamespace(namespace)
	}
	withoutMarks(out)
	return out
}

// marks are what other engines write on a resource of a composition themselves.
var marks = []string{
	"crossplane.io/composite", "crossplane.io/claim-name", "crossplane.io/claim-namespace", "crossplane.io/composition-resource-name",
	"kubectl.kubernetes.io/last-applied-configuration",
}

// withoutMarks takes off what engines write.
func withoutMarks(o *unstructured.Unstructured) {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	ourLabels, ourAnnotations := inventory.Marks(o)
	for _, key := range slices.Concat(ourLabels, ourAnnotations, marks, []string{v1alpha1.AppliedAnnotation}) {
		delete(labels, key)
		delete(annotations, key)
	}
	o.SetLabels(labels)
	o.SetAnnotations(annotations)
}

// composers begins the names of managers with which other engines apply resources.
const composers = "apiextensions.crossplane.io/composed"

// own are the fields that an engine has applied; nil if that isn't told.
func own(entries []metav1.ManagedFieldsEntry) map[string]any {
	for _, e := range entries {
		ours := e.Manager == v1alpha1.ChildManager || strings.HasPrefix(e.Manager, composers)
		if !ours || e.Operation != metav1.ManagedFieldsOperationApply || e.Subresource != "" || e.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) == nil {
			return fields
		}
	}
	return nil
}

// part is the part of a value that an entry of FieldsV1 names: all of it where the entry
// is empty. See k8s.io/apimachinery/pkg/apis/meta/v1.
func part(value any, fields map[string]any) any {
	if len(fields) == 0 {
		return value
	}
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, entry := range fields {
			name, ok := strings.CutPrefix(key, "f:")
			below, there := v[name]
			if ok && there {
				out[name] = part(below, entries(entry))
			}
		}
		return out
	case []any:
		out := []any{}
		for i, item := range v {
			for key, entry := range fields {
				if names(key, i, item) {
					out = append(out, part(item, entries(entry)))
					break
				}
			}
		}
		return out
	default:
		return value
	}
}

func entries(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// names says whether a key of FieldsV1 names an item of a list: by its value, by the
// values of its keys, or by its place.
func names(key string, index int, item any) bool {
	kind, raw, _ := strings.Cut(key, ":")
	switch kind {
	case "i":
		return raw == strconv.Itoa(index)
	case "v":
		return same(raw, item)
	case "k":
		m, ok := item.(map[string]any)
		var keys map[string]json.RawMessage
		if !ok || json.Unmarshal([]byte(raw), &keys) != nil {
			return false
		}
		for k, want := range keys {
			if !same(string(want), m[k]) {
				return false
			}
		}
		return true
	}
	return false
}

// same compares a value with one in JSON.
func same(raw string, value any) bool {
	var decoded any
	return json.Unmarshal([]byte(raw), &decoded) == nil && object.Digest(decoded) == object.Digest(value)
}
