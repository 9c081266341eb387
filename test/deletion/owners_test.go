package deletion

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestForegroundDeletionByTheGarbageCollector shows why children have a second owner beside their
// instance. When an owner is deleted in the foreground, the garbage collector deletes all
// dependents before the owner, whether they have blockOwnerDeletion or not; from a dependent with
// another owner it only removes the reference.
func TestForegroundDeletionByTheGarbageCollector(t *testing.T) {
	t.Parallel()
	config := testkit.AnotherServer(t) // whose garbage collector has nothing else to do
	s := suite.Suite{Cluster: testkit.NewCluster(t, config), Config: config, NS: testkit.Namespace(t, config)}
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
	s.DeleteWith(t, suite.ConfigMap, s.NS, "owner", metav1.DeletePropagationForeground)
	for _, name := range []string{"plain", "blocking", "free"} {
		s.AwaitGone(t, suite.ConfigMap, s.NS, name)
	}
	s.Await(t, suite.ConfigMap, s.NS, "anchored", func(o *unstructured.Unstructured) error {
		if err := isNotTerminating(o); err != nil {
			return err
		}
		if refs := o.GetOwnerReferences(); len(refs) != 1 || refs[0].Name != "anchor" {
			return fmt.Errorf("has the owner references %v", refs)
		}
		return nil
	})
	setFinalizers(t, s, suite.ConfigMap, "owner")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "owner")
}

// orderly is a definition whose second node depends on its first.
var orderly = suite.Graph("Ordered", "", `
    - id: first
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-first"}}
    - id: second
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-second"}, data: {on: "${first.metadata.name}"}}
    - id: kept
      deletionPolicy: Retain
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-kept"}}
`)

// isOrphaned checks that an object stays, without an owner reference to the owner.
func isOrphaned(owner *unstructured.Unstructured) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if err := isNotTerminating(o); err != nil {
			return err
		}
		for _, ref := range o.GetOwnerReferences() {
			if ref.UID == owner.GetUID() {
				return errors.New("has an owner reference to its instance")
			}
		}
		return nil
	}
}

// TestForegroundDeletionKeepsTheOrder deletes an instance in the foreground, while a finalizer blocks
// the child that is deleted first: the garbage collector does not delete the other one before it.
func TestForegroundDeletionKeepsTheOrder(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, orderly)
	s.Apply(t, "{apiVersion: $GROUP/v1alpha1, kind: Ordered, metadata: {name: x, namespace: $NS}}")
	instance := s.AwaitReady(t, s.Kind("Ordered"), s.NS, "x")
	if refs := s.Get(t, suite.ConfigMap, s.NS, "x-kept").GetOwnerReferences(); len(refs) > 0 {
		t.Errorf("the retained child has the owner references %v", refs)
	}
	// The garbage collector ends a deletion in the foreground at once if nothing blocks it, and the references of the
	// children may then outlive it. A dependent of somebody else blocks it here, until all others are processed.
	s.Apply(t, fmt.Sprintf(`
apiVersion: v1
kind: ConfigMap
metadata:
  name: x-foreign
  namespace: $NS
  finalizers: [example.com/guard]
  ownerReferences: [{apiVersion: %s, kind: Ordered, name: x, uid: %s, blockOwnerDeletion: true}]
`, instance.GetAPIVersion(), instance.GetUID()))
	setFinalizers(t, s, suite.ConfigMap, "x-second", "example.com/guard")
	deleteWith(t, s, "Ordered", metav1.DeletePropagationForeground)
	s.Await(t, s.Kind("Ordered"), s.NS, "x", isBlocked("x-second", report.HeldByFinalizer, "example.com/guard"))
	s.Await(t, suite.ConfigMap, s.NS, "x-first", isOrphaned(instance)) // the garbage collector has processed it
	setFinalizers(t, s, suite.ConfigMap, "x-second")
	setFinalizers(t, s, suite.ConfigMap, "x-foreign")
	s.AwaitGone(t, s.Kind("Ordered"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-first")

	t.Log("the retained child stays, also when the kind is deleted")
	kind := s.Get(t, suite.CRD, "", "ordereds."+s.Group)
	s.Delete(t, suite.RGD, "", s.Name("ordered"))
	s.AwaitGone(t, suite.RGD, "", s.Name("ordered"))
	s.AwaitGone(t, suite.CRD, "", "ordereds."+s.Group)
	awaitCollector(t, s, kind) // of a deleted kind the collector may not notice that the owner is deleted
	if err := isNotTerminating(s.Get(t, suite.ConfigMap, s.NS, "x-kept")); err != nil {
		t.Errorf("x-kept %v", err)
	}
}

// TestAnInstanceWithoutItsFinalizerOrphansItsChildren removes the finalizer as a user may: the garbage
// collector removes the references to the instance, and deletes no child.
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

	t.Log("another instance of the name adopts it")
	before := s.Get(t, suite.ConfigMap, s.NS, "x-first")
	setFinalizers(t, s, suite.ConfigMap, "x-second")
	s.Apply(t, "{apiVersion: $GROUP/v1alpha1, kind: Ordered, metadata: {name: x, namespace: $NS}}")
	next := s.AwaitReady(t, s.Kind("Ordered"), s.NS, "x")
	after := s.Get(t, suite.ConfigMap, s.NS, "x-first")
	if after.GetUID() != before.GetUID() || len(after.GetOwnerReferences()) != 2 || isOrphaned(next)(after) == nil {
		t.Errorf("x-first is not adopted: %v", after.Object["metadata"])
	}
}
