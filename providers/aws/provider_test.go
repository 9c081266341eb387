package aws_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/providers/aws"
)

// TestUnsupportedTypes opens a type that the catalog has, and that cannot be served. Its activation shows the error.
func TestUnsupportedTypes(t *testing.T) {
	const name = "AWS::LakeFormation::PrincipalPermissions"
	c := aws.Provider(aws.Options{}).Catalog
	if names, err := c.Match("AWS::LakeFormation::*"); err != nil || len(names) == 0 || slices.Contains(names, name) {
		t.Errorf("a pattern matches %v, %v", names, err)
	}
	if names, err := c.Match(name); err != nil || !slices.Equal(names, []string{name}) {
		t.Errorf("the name matches %v, %v", names, err)
	}
	_, _, err := c.Open(name, false)
	if err == nil || !strings.Contains(err.Error(), "resource type "+name+" is not supported: the Cloud Control API creates such resources and cannot read them") {
		t.Errorf("got %v", err)
	}
}

// TestTheCatalogOpensItsTypes opens types with all forms of identifiers, tags and references.
func TestTheCatalogOpensItsTypes(t *testing.T) {
	p := aws.Provider(aws.Options{})
	names, err := p.Catalog.Match("AWS::E*")
	if err != nil || len(names) < 100 {
		t.Fatalf("%d types, %v", len(names), err)
	}
	if _, err := p.Catalog.Match("AWS::IAM::Policy"); err == nil || err.Error() != "the Cloud Control API does not serve AWS::IAM::Policy; use AWS::IAM::RolePolicy, AWS::IAM::UserPolicy or AWS::IAM::GroupPolicy" {
		t.Errorf("a type that others stand for: %v", err)
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
