package deletion

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// composites is a nest of the composition dialect: a claim Top of an XTop of a Mid, both
// cluster-scoped, of a Low in the claim's namespace, which has two objects of a leaf kind, the
// second of which depends on the first.
var composites = leafKind + "---" +
	suite.XRD("v1", "XTop", "", "", "claimNames: {kind: Top, plural: tops}") + "---" +
	suite.XRD("v2", "Mid", "namespace: {type: string}", "", "scope: Cluster") + "---" +
	suite.XRD("v2", "Low", "", "", "scope: Namespaced") + "---" +
	suite.Composition("top", "XTop", suite.PatchAndTransform(`
      - name: mid
        base: {apiVersion: $GROUP/v1alpha1, kind: Mid}
        patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.claimRef.namespace, toFieldPath: spec.namespace}]
`)+suite.AutoReady) + "---" +
	suite.Composition("mid", "Mid", suite.PatchAndTransform(`
      - name: low
        base: {apiVersion: $GROUP/v1alpha1, kind: Low, spec: {}}
        patches: [{type: FromCompositeFieldPath, fromFieldPath: spec.namespace, toFieldPath: metadata.namespace}]
`)+suite.AutoReady) + "---" +
	suite.Composition("low", "Low", suite.PatchAndTransform(`
      - name: below
        base: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: x-below}, spec: {a: b}}
        readinessChecks: [{type: None}]
      - name: leaf
        base: {apiVersion: leaf.$GROUP/v1, kind: Leaf, metadata: {name: x-leaf, annotations: {espalier.dev/depends-on: below}}, spec: {a: b}}
        readinessChecks: [{type: None}]
`))

// unclaimed is a Mid of the nest that no claim refers to, and the layers below it.
var unclaimed = layered{[]layer{{kind: "Low"}, {kind: "Mid", cluster: true}}, composeMid, reportsBlocker}

func composeMid(t *testing.T, s suite.Suite) {
	t.Helper()
	s.Apply(t, composites)
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Mid\nmetadata: {name: x}\nspec: {namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Mid"), "", "x")
}

// compose creates the nest and a claim of it.
func compose(t *testing.T, s suite.Suite) {
	t.Helper()
	s.Apply(t, composites)
	s.Apply(t, topInstance+"spec: {}\n")
	s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
}

// TestAClaimIsDeletedLastWithEachPolicy blocks the leaf that is deleted first. The leaf that it
// depends on is not deleted before it: the composite of a claim is never deleted in the
// foreground, since the garbage collector would delete the composed resources in no order.
func TestAClaimIsDeletedLastWithEachPolicy(t *testing.T) {
	for _, policy := range []string{"Background", "Foreground"} {
		t.Run(policy, func(t *testing.T) {
			s, nest := newSuite(t), nests["composites"]
			s.Apply(t, composites)
			s.Apply(t, topInstance+"spec: {compositeDeletePolicy: "+policy+"}\n")
			s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
			setFinalizers(t, s, leaf(s), "x-leaf", "example.com/guard")
			s.Delete(t, s.Kind("Top"), s.NS, "x")
			nest.awaitEveryLayer(t, s, nest.blocked("x-leaf", report.HeldByFinalizer, "example.com/guard"))
			if err := isNotTerminating(s.Get(t, leaf(s), s.NS, "x-below")); err != nil {
				t.Errorf("x-below, on which the blocked leaf depends, %v", err)
			}
			nest.release(t, s, "x-leaf")
		})
	}
}

// TestOrphansOfACompositeHaveNoOwner deletes composites with the policy Orphan: the garbage
// collector does not delete the composed resources either.
func TestOrphansOfACompositeHaveNoOwner(t *testing.T) {
	s := newSuite(t)
	composeMid(t, s)
	low, mid := unclaimed.layers[0], unclaimed.layers[1]
	before := s.Get(t, leaf(s), s.NS, "x-leaf")
	upper := mid.only(t, s)

	deleteWith(t, s, "Mid", metav1.DeletePropagationOrphan)
	s.AwaitEventOn(t, upper, "Orphaned", "Low")
	s.AwaitGone(t, s.Kind("Mid"), "", "x")
	awaitCollector(t, s, upper)
	lower := low.only(t, s)
	if err := isNotTerminating(lower); err != nil {
		t.Fatalf("the lower composite %v", err)
	}
	name := lower.GetName()
	s.AwaitReady(t, s.Kind("Low"), s.NS, name)
	if lower.GetLabels()["applyset.kubernetes.io/part-of"] != "" || lower.GetAnnotations()["crossplane.io/composition-resource-name"] != "" || len(lower.GetOwnerReferences()) > 0 {
		t.Errorf("the orphan has labels, annotations or owners of its composite: %v", lower.Object["metadata"])
	}
	if lower.GetLabels()["applyset.kubernetes.io/id"] == "" || len(lower.GetFinalizers()) == 0 {
		t.Errorf("the orphan is no composite any more: %v", lower.Object["metadata"])
	}

	policy := metav1.DeletePropagationOrphan
	if err := low.client(t, s).Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		t.Fatal(err)
	}
	s.AwaitEventOn(t, lower, "Orphaned", "x-leaf", "x-below")
	s.AwaitGone(t, s.Kind("Low"), s.NS, name)
	awaitCollector(t, s, lower)
	for _, name := range []string{"x-leaf", "x-below"} {
		o := s.Get(t, leaf(s), s.NS, name)
		if err := errors.Join(isNotTerminating(o), isUnlabelled(o)); err != nil {
			t.Errorf("%s %v", name, err)
		}
	}
	if got := s.Get(t, leaf(s), s.NS, "x-leaf"); got.GetUID() != before.GetUID() {
		t.Error("the leaf was recreated")
	}
}

// TestACompositeOutlivesItsOrphaningClaim deletes a claim with the policy Orphan: its composite stays,
// is still reconciled, and can be deleted.
func TestACompositeOutlivesItsOrphaningClaim(t *testing.T) {
	s := newSuite(t)
	compose(t, s)
	composite := nests["composites"].layers[2]
	name := composite.only(t, s).GetName()
	deleteWith(t, s, "Top", metav1.DeletePropagationOrphan)
	s.AwaitEvent(t, "x", "Orphaned", name)
	s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
	left := s.AwaitReady(t, s.Kind("XTop"), "", name)
	for key := range left.GetLabels() {
		if strings.HasPrefix(key, "crossplane.io/claim-") || key == "applyset.kubernetes.io/part-of" || key == "kro.run/node-id" {
			t.Errorf("the composite has the label %s", key)
		}
	}
	if ref, claimed, _ := unstructured.NestedMap(left.Object, "spec", "claimRef"); claimed {
		t.Errorf("the composite refers to a claim: %v", ref)
	}
	for _, name := range []string{"x-leaf", "x-below"} {
		if err := isNotTerminating(s.Get(t, leaf(s), s.NS, name)); err != nil {
			t.Errorf("%s %v", name, err)
		}
	}
	s.Delete(t, s.Kind("XTop"), "", name)
	nests["composites"].awaitGone(t, s)
}

// awaitCollector waits until the garbage collector knows that an owner is deleted: until it has
// deleted another object with a reference to that owner.
func awaitCollector(t *testing.T, s suite.Suite, owner *unstructured.Unstructured) {
	t.Helper()
	s.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: %s
  namespace: $NS
  ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: %s}]
`, strings.ToLower(owner.GetKind())+"-collected", owner.GetAPIVersion(), owner.GetKind(), owner.GetName(), owner.GetUID()))
	s.AwaitGone(t, suite.ConfigMap, s.NS, strings.ToLower(owner.GetKind())+"-collected")
}
