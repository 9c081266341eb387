package compositions

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// sold is a claim of a composite that is composed of nothing.
var sold = suite.XRD("v1", "XSale", "size: {type: string}", "", "claimNames: {kind: Sale, plural: sales}") + "---" +
	suite.Composition("sale", "XSale", suite.AutoReady)

// TestAFormerReferenceableVersionIsRemoved moves the referenceable version of a definition, and then removes the former
// version: composites and claims that are stored in it are rewritten first.
func TestAFormerReferenceableVersionIsRemoved(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, sold)
	definition, _, _ := strings.Cut(sold, "---")
	xrd := schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "CompositeResourceDefinition"}
	crds := []string{"xsales." + s.Group, "sales." + s.Group}
	s.AwaitReady(t, xrd, "", crds[0])
	for i := range 3 {
		s.Apply(t, fmt.Sprintf("{apiVersion: $GROUP/v1alpha1, kind: Sale, metadata: {namespace: $NS, name: s%d}, spec: {size: s}}", i))
		s.Await(t, s.Kind("Sale"), s.NS, fmt.Sprintf("s%d", i), available)
	}
	until, version := definition[:strings.Index(definition, "  - name: v1alpha1")], definition[strings.Index(definition, "  - name: v1alpha1"):]
	next := strings.Replace(version, "v1alpha1", "v1", 1)

	s.Apply(t, until+next)
	s.Await(t, xrd, "", crds[0], suite.All(
		suite.HasCondition("Established", "False", "VersionStillStored", "v1alpha1", crds[0], "List it in spec.versions", "once version v1 is referenceable"),
		suite.HasCondition("Offered", "False", "VersionStillStored", "v1alpha1", crds[1])))
	s.Apply(t, until+strings.Replace(version, "referenceable: true", "referenceable: false", 1)+next)
	s.AwaitReady(t, xrd, "", crds[0])
	s.Apply(t, until+next)
	s.Await(t, xrd, "", crds[0], func(o *unstructured.Unstructured) error {
		if testkit.ConditionReason(o, "Stalled") == "VersionStillStored" {
			t.Error("it is stalled while the objects are being rewritten")
		}
		return suite.HasCondition("Ready", "True", "Ready")(o)
	})
	for _, name := range crds {
		s.Await(t, suite.CRD, "", name, func(o *unstructured.Unstructured) error {
			versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
			if stored, _, _ := unstructured.NestedStringSlice(o.Object, "status", "storedVersions"); len(versions) != 1 || fmt.Sprint(stored) != "[v1]" {
				return fmt.Errorf("it has %d versions, and objects are stored in %v", len(versions), stored)
			}
			return nil
		})
	}
	claims, composites := schema.GroupVersionKind{Group: s.Group, Version: "v1", Kind: "Sale"}, schema.GroupVersionKind{Group: s.Group, Version: "v1", Kind: "XSale"}
	for i := range 3 {
		if o := s.Get(t, claims, s.NS, fmt.Sprintf("s%d", i)); text(o, "spec", "size") != "s" {
			t.Errorf("the claim is %s", testkit.JSON(o))
		}
	}
	// The API server refuses to apply an object while an entry of its managedFields has a version that the kind lacks.
	mergePatch(t, s, claims, s.NS, "s0", `{"spec":{"size":"l"}}`)
	s.AwaitList(t, composites, "", "crossplane.io/claim-namespace="+s.NS+",crossplane.io/claim-name=s0", func(objects map[string]*unstructured.Unstructured) error {
		for _, o := range objects {
			if text(o, "spec", "size") == "l" {
				return nil
			}
		}
		return fmt.Errorf("the change of the claim does not reach its composite: %s", testkit.JSON(s.Get(t, claims, s.NS, "s0")))
	})
}
