package archive

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// IsRenumbered reports whether revisions of a kind get a higher number when their composition
// returns to an earlier state. Other revisions never change.
func IsRenumbered(gk schema.GroupKind) bool { return gk == revisionKind }

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

// NewRevisionProblem returns why an import cannot create a revision of a composition or definition
// that has the existing revisions; empty if it can. It must be older than all of them: instances
// follow the newest revision that their selector matches, and a composition that returns to an
// earlier state makes the revision with the hash of that state the newest. Existing revisions that
// the archive contains too get the greater number of both; numbers has the archive's.
func NewRevisionProblem(revision *unstructured.Unstructured, existing []*unstructured.Unstructured, numbers map[object.Key]int64) string {
	hash := revision.GetLabels()[v1.CompositionHashLabel]
	for _, live := range existing {
		if hash != "" && live.GetLabels()[v1.CompositionHashLabel] == hash {
			return fmt.Sprintf("it has the hash of %s, which exists", live.GetName())
		}
		if number := max(Number(live), numbers[object.KeyOf(live)]); Number(revision) >= number {
			return fmt.Sprintf("its number %d is not less than %d, that of %s, which exists", Number(revision), number, live.GetName())
		}
	}
	return ""
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
