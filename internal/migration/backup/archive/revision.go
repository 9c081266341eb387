package archive

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// DefinitionOf returns the definition of a GraphRevision.
func DefinitionOf(revision *unstructured.Unstructured) object.Key {
	name, _, _ := unstructured.NestedString(revision.Object, "spec", "snapshot", "name")
	namespace, _, _ := unstructured.NestedString(revision.Object, "spec", "snapshot", "namespace")
	key := object.Key{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.ResourceGraphDefinitionKind, Namespace: namespace, Name: name}
	if namespace != "" {
		key.Kind = v1alpha1.ResourceGroupKind
	}
	return key
}

// RevisedBy returns what a revision is one of: the composition of a CompositionRevision, or the
// definition of a GraphRevision.
func RevisedBy(revision *unstructured.Unstructured) object.Key {
	if revision.GroupVersionKind().GroupKind() == revisionKind {
		return object.Key{Group: compositionKind.Group, Kind: compositionKind.Kind, Name: revision.GetLabels()[v1.CompositionNameLabel]}
	}
	return DefinitionOf(revision)
}

// keptFields are the fields of a definition's status that cannot be computed again: the last
// issued revision, the serving revision, and the progress of a rollout. Without them, the newest
// revision would reach all instances at once.
var keptFields = []string{"lastIssuedRevision", "servingRevision", "rollout"}

// servedStatus returns the exported part of a definition's status as the value of an annotation;
// "" if there is none. A status cannot be restored in the same write as the definition, and the
// controller does not wait for a second write.
func servedStatus(definition *unstructured.Unstructured) string {
	status, _, _ := unstructured.NestedMap(definition.Object, "status") // a copy
	out := map[string]any{}
	for _, field := range keptFields {
		if value, ok := status[field]; ok {
			out[field] = value
		}
	}
	if len(out) == 0 {
		return definition.GetAnnotations()[v1alpha1.ServedAnnotation]
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "" // unreachable: the status was decoded from JSON
	}
	return string(text)
}
