package pipeline

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
)

// objectProblem says which field of a desired object makes it an invalid Kubernetes object, as far as
// that is known without its schema; the problem is "" if it is valid.
func objectProblem(object map[string]any) (field, problem string) {
	apiVersion, ok := object["apiVersion"].(string)
	if !ok && object["apiVersion"] != nil {
		return "apiVersion", mustBeString
	}
	kind, ok := object["kind"].(string)
	if !ok && object["kind"] != nil {
		return "kind", mustBeString
	}
	if field, problem := kindProblem(apiVersion, kind); problem != "" {
		return field, problem
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok && object["metadata"] != nil {
		return "metadata", mustBeObject
	}
	field, problem = metadataProblem(metadata)
	return "metadata." + field, problem
}

const (
	mustBeString = "must be a string"
	mustBeObject = "must be an object"
)

func metadataProblem(metadata map[string]any) (field, problem string) {
	for _, field := range []string{"name", "generateName", "namespace"} {
		value, ok := metadata[field].(string)
		switch {
		case !ok && metadata[field] != nil:
			return field, mustBeString
		case value == "":
		case field == "namespace" && len(validation.IsDNS1123Label(value)) > 0,
			field != "namespace" && (len(value) > 253 || len(content.IsPathSegmentName(value)) > 0):
			return field, invalidValue(value)
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		values, ok := metadata[field].(map[string]any)
		if !ok && metadata[field] != nil {
			return field, mustBeObject
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if _, ok := values[key].(string); !ok && values[key] != nil {
				return fmt.Sprintf("%s[%.80s]", field, key), mustBeString
			}
		}
	}
	return "", ""
}

func invalidValue(value string) string { return fmt.Sprintf("is invalid: %.80q", value) }
