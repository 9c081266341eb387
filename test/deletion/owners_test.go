package deletion

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestWhatTheCollectorDoesInTheForeground is about Kubernetes, and why children refer to
// something beside their instance: of an owner that goes in the foreground the garbage
// collector deletes all dependents, whether they block or not, while the owner is kept;
// but what has another owner only loses the reference.
func TestWhatTheCollectorDoesInTheForeground(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: anchor}}")
	s.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: owner, finalizers: [example.com/guard]}}")
	ref := func(name, more string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, name: %s, uid: %s%s}", name, s.Get(t, suite.ConfigMap, s.NS, name).GetUID(), more)
	}
	for name, refs := range map[string]string{
		"plain":    ref("owner", ""),
		"blocking": ref("owner", ", controller: true, blockOwnerDeletion: true"),
		"free":     ref("owner", ", controller: true, blockOwnerDeletion: false"),
		"anchored": ref("owner", "") + ", " + ref("anchor", ""),
	} {
		s.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: $NS, name: %s, ownerReferences: [%s]}}", name, refs))
	}
	policy := metav1.DeletePropagationForeground
	if err := s.Resource(t, suite.ConfigMap, s.NS).Delete(t.Context(), "owner", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"plain", "blocking", "free"} {
		s.AwaitGone(t, suite.ConfigMap, s.NS, name)
	}
	s.Await(t, suite.ConfigMap, s.NS, "anchored", func(o *unstructured.Unstructured) error {
		if err := isNotTerminating(o); err != nil {
			return err
		}
		if refs := o.GetOwnerReferences(); len(refs) != 1 || refs[0].Name != "anchor" {
			return fmt.Errorf("it refers to %v", refs)
		}
		return nil
	})
	setFinalizers(t, s, suite.ConfigMap, "owner")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "owner")
}

// orderly is a definition whose second object stands on its first.
const orderly = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-ordered}
spec:
  schema: {apiVersion: v1alpha1, kind: Ordered, group: $GROUP}
  resources:
    - id: first
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-first"}}
    - id: second
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-second"}, data: {on: "${first.metadata.name}"}}
    - id: kept
      deletionPolicy: Retain
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-kept"}}
`

// isOrphaned checks that an object stays, without an owner reference to the owner.
func isOrphaned(owner *unstructured.Unstructured) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if err := isNotTerminating(o); err != nil {
			return err
		}
		for _, ref := range o.GetOwnerReferences() {
			if ref.UID == owner.GetUID() {
				return errors.New("it refers to its instance still")
			}
		}
		return nil
	}
}

// TestTheOrderHoldsInTheForegroundToo deletes an instance in the foreground while what goes
// first is held: what goes later stays, although the garbage collector has looked at it.
func TestTheOrderHoldsInTheForegroundToo(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, orderly)
	s.Apply(t, "{apiVersion: $GROUP/v1alpha1, kind: Ordered, metadata: {name: x, namespace: $NS}}")
	instance := s.AwaitReady(t, s.Kind("Ordered"), s.NS, "x")
	if refs := s.Get(t, suite.ConfigMap, s.NS, "x-kept").GetOwnerReferences(); len(refs) > 0 {
		t.Errorf("what is to stay refers to %v", refs)
	}
	setFinalizers(t, s, suite.ConfigMap, "x-second", "example.com/guard")
	deleteWith(t, s, "Ordered", metav1.DeletePropagationForeground)
	s.Await(t, s.Kind("Ordered"), s.NS, "x", isBlocked("x-second", report.HeldByFinalizer, "example.com/guard"))
	s.Await(t, suite.ConfigMap, s.NS, "x-first", isOrphaned(instance)) // the collector was there
	setFinalizers(t, s, suite.ConfigMap, "x-second")
	s.AwaitGone(t, s.Kind("Ordered"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-first")

	t.Log("what is retained stays, also when the kind goes")
	kind := s.Get(t, suite.CRD, "", "ordereds."+s.Group)
	s.Delete(t, suite.RGD, "", s.Name("ordered"))
	s.AwaitGone(t, suite.RGD, "", s.Name("ordered"))
	s.AwaitGone(t, suite.CRD, "", "ordereds."+s.Group)
	awaitCollector(t, s, kind) // of a kind that is gone it may never find out that the owner is
	if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, "x-kept")); err != nil {
		t.Errorf("x-kept %v", err)
	}
}

// TestAnInstanceWithoutItsFinalizerOrphansItsChildren removes the finalizer by hand, as
// a user in a hurry does: the garbage collector takes off what refers to it, and no more.
func TestAnInstanceWithoutItsFinalizerOrphansItsChildren(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, orderly)
	s.Apply(t, "{apiVersion: $GROUP/v1alpha1, kind: Ordered, metadata: {name: x, namespace: $NS}}")
	instance := s.AwaitReady(t, s.Kind("Ordered"), s.NS, "x")
	setFinalizers(t, s, suite.ConfigMap, "x-second", "example.com/guard")
	s.Delete(t, s.Kind("Ordered"), s.NS, "x")
	s.Await(t, s.Kind("Ordered"), s.NS, "x", isBlocked("x-second", report.HeldByFinalizer))
	setFinalizers(t, s, s.Kind("Ordered"), "x")
	s.AwaitGone(t, s.Kind("Ordered"), s.NS, "x")
	s.Await(t, suite.ConfigMap, s.NS, "x-first", isOrphaned(instance))

	t.Log("another instance of the name takes it on")
	before := s.Get(t, suite.ConfigMap, s.NS, "x-first")
	setFinalizers(t, s, suite.ConfigMap, "x-second")
	s.Apply(t, "{apiVersion: $GROUP/v1alpha1, kind: Ordered, metadata: {name: x, namespace: $NS}}")
	next := s.AwaitReady(t, s.Kind("Ordered"), s.NS, "x")
	after := s.Get(t, suite.ConfigMap, s.NS, "x-first")
	if after.GetUID() != before.GetUID() || len(after.GetOwnerReferences()) != 2 || isOrphaned(next)(after) == nil {
		t.Errorf("it is not taken on: %v", after.Object["metadata"])
	}
}
