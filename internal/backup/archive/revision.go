package archive

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// IsRenumbered says whether a revision of a kind takes on a higher number when what it is a
// revision of has become again what it was; others never change.
func IsRenumbered(gk schema.GroupKind) bool { return gk == revisionKind }

// Snapshotted is the definition that a revision is of.
func Snapshotted(revision *unstructured.Unstructured) object.Key {
	name, _, _ := unstructured.NestedString(revision.Object, "spec", "snapshot", "name")
	namespace, _, _ := unstructured.NestedString(revision.Object, "spec", "snapshot", "namespace")
	key := object.Key{Group: v1alpha1.GroupVersion.Group, Kind: v1alpha1.ResourceGraphDefinitionKind, Namespace: namespace, Name: name}
	if namespace != "" {
		key.Kind = v1alpha1.ResourceGroupKind
	}
	return key
}

// served are the fields of a definition's status that can't be found out again: which of its
// revisions have been given out, which one serves, and how far another has come. Without
// them the newest would reach all instances at once.
var served = []string{"lastIssuedRevision", "servingRevision", "rollout"}

// servedBy is what of a definition's status is exported, as the annotation has it; "" if
// there is nothing. A status couldn't be restored in one write with the definition, and its
// controller doesn't wait for another.
func servedBy(definition *unstructured.Unstructured) string {
	was, _, _ := unstructured.NestedMap(definition.Object, "status") // a copy
	out := map[string]any{}
	for _, field := range served {
		if value, told := was[field]; told {
			out[field] = value
		}
	}
	if len(out) == 0 {
		return definition.GetAnnotations()[v1alpha1.ServedAnnotation]
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "" // can't be: it was decoded from JSON
	}
	return string(text)
}
