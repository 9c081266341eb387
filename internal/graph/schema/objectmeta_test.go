package schema_test

import (
	"reflect"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/espalier-dev/espalier/internal/graph/schema"
)

// Each definition keeps the schemas of its instances and resources, and metadata is most of a small one.
func TestSchemasShareThatOfMetadata(t *testing.T) {
	one := schema.WithObjectMeta(nil)
	other := schema.WithObjectMeta(&spec.Schema{SchemaProps: spec.SchemaProps{Properties: map[string]spec.Schema{"spec": {}}}})
	if address(one.Properties["metadata"].Properties) != address(other.Properties["metadata"].Properties) {
		t.Error("each schema has its own copy of the schema of metadata")
	}
	if address(one.Properties) == address(other.Properties) || len(one.Properties) != 3 || len(other.Properties) != 4 {
		t.Errorf("the schemas share all of their fields: %d, %d", len(one.Properties), len(other.Properties))
	}
}

func address(fields map[string]spec.Schema) uintptr { return reflect.ValueOf(fields).Pointer() }
