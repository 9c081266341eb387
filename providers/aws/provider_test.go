package aws_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/aws"
)

// TestTheCatalogOpensItsTypes opens types with all forms of identifiers, tags and references.
func TestTheCatalogOpensItsTypes(t *testing.T) {
	p := aws.Provider(aws.Options{})
	names, err := p.Catalog.Match("AWS::E*")
	if err != nil || len(names) < 100 {
		t.Fatalf("%d types, %v", len(names), err)
	}
	references := 0
	for i, name := range names {
		clusterScoped := i%2 == 1
		kind, crd, err := p.Catalog.Open(name, clusterScoped)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		gvk := kind.Port().GVK
		if crd.Spec.Group != gvk.Group || crd.Spec.Names.Kind != gvk.Kind {
			t.Errorf("%s: the kind is %s, and the CustomResourceDefinition %s", name, gvk, crd.Name)
		}
		typeName, scope, ok := p.Catalog.TypeOf(schema.GroupKind{Group: gvk.Group, Kind: gvk.Kind})
		if !ok || typeName != name || scope != clusterScoped {
			t.Errorf("%s is of the type %s", gvk, typeName)
		}
		references += len(kind.Port().References)
	}
	t.Logf("%d types with %d references", len(names), references)
}
