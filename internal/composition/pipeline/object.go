package pipeline

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
)

// objectProblem says why a desired object is no valid Kubernetes object, as far as that is
// known without its schema; "" if it is valid.
func objectProblem(object map[string]any) string {
	apiVersion, ok := object["apiVersion"].(string)
	if !ok && object["apiVersion"] != nil {
		return "has an apiVersion that is no text"
	}
	kind, ok := object["kind"].(string)
	if !ok && object["kind"] != nil {
		return "has a kind that is no text"
	}
	if what := kindProblem(apiVersion, kind); what != "" {
		return what
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok && object["metadata"] != nil {
		return "has metadata that are no object"
	}
	return metadataProblem(metadata)
}

func metadataProblem(metadata map[string]any) string {
	for _, field := range []string{"name", "generateName", "namespace"} {
		value, ok := metadata[field].(string)
		switch {
		case !ok && metadata[field] != nil:
			return fmt.Sprintf("has a metadata.%s that is no text", field)
		case value == "":
		case field == "namespace" && len(validation.IsDNS1123Label(value)) > 0,
			field != "namespace" && (len(value) > 253 || len(content.IsPathSegmentName(value)) > 0):
			return fmt.Sprintf("has a metadata.%s that cannot be: %.80q", field, value)
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		values, ok := metadata[field].(map[string]any)
		if !ok && metadata[field] != nil {
			return fmt.Sprintf("has metadata.%s that are no object", field)
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if _, ok := values[key].(string); !ok && values[key] != nil {
				return fmt.Sprintf("has a metadata.%s[%.80s] that is no text", field, key)
			}
		}
	}
	return ""
}
