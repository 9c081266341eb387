package deletion

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestANamespaceIsDeletedWithItsInstances deletes the namespace of a nest: the API server deletes
// all objects at once, in no order, and refuses to create others.
func TestANamespaceIsDeletedWithItsInstances(t *testing.T) {
	namespace := suite.ConfigMap
	namespace.Kind = "Namespace"
	t.Run("with no blocker", func(t *testing.T) {
		s := newSuite(t)
		build(t, s)
		watched := watchLayers(t, s, isNotInError)
		s.Delete(t, namespace, "", s.NS)
		awaitNestGone(t, s)
		s.AwaitGone(t, namespace, "", s.NS)
		watched.check(t)
	})
	for _, held := range []string{"x-leaf", "x-below"} {
		t.Run("with a finalizer of "+held, func(t *testing.T) {
			s := newSuite(t)
			build(t, s)
			setFinalizers(t, s, leaf(s), held, guard)
			watched := watchLayers(t, s, isNotInError)
			s.Delete(t, namespace, "", s.NS)
			awaitBlocked(t, s, held, report.HeldByFinalizer, guard)
			setFinalizers(t, s, leaf(s), held)
			awaitNestGone(t, s)
			s.AwaitGone(t, namespace, "", s.NS)
			watched.check(t)
		})
	}
	t.Run("with an instance that is protected", func(t *testing.T) {
		s := newSuite(t)
		build(t, s)
		annotate(t, s, s.Kind("Low"), "x", "espalier.dev/protect", "holds the ledger")
		s.Delete(t, namespace, "", s.NS)
		for _, kind := range layers {
			s.Await(t, s.Kind(kind), s.NS, "x", isBlocked("x", report.Protected, "holds the ledger"))
		}
		annotate(t, s, s.Kind("Low"), "x", "espalier.dev/protect", nil)
		awaitNestGone(t, s)
		s.AwaitGone(t, namespace, "", s.NS)
	})
}

// guest has two children in another namespace.
var guest = `
apiVersion: v1
kind: Namespace
metadata: {name: $ID-other}
---` + suite.Graph("Guest", "", `
    - id: held
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: $ID-other}, data: {a: b}}
    - id: beside
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: beside, namespace: $ID-other}, data: {a: b}}
    - id: home
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: home}, data: {a: "${beside.data.a}"}}
`)

// TestANamespaceWithAChildIsDeleted deletes a namespace in which an instance of another
// namespace has children.
func TestANamespaceWithAChildIsDeleted(t *testing.T) {
	namespace := suite.ConfigMap
	namespace.Kind = "Namespace"
	create := func(t *testing.T, s suite.Suite) (hold, release func()) {
		t.Helper()
		s.Apply(t, guest)
		s.AwaitDefinitions(t, "guest")
		s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Guest\nmetadata: {name: x, namespace: $NS}\n")
		s.AwaitReady(t, s.Kind("Guest"), s.NS, "x")
		set := func(finalizers string) {
			t.Helper()
			patch := `{"metadata":{"finalizers":` + finalizers + `}}`
			s.Patch(t, suite.ConfigMap, s.Name("other"), "held", patch)
		}
		t.Cleanup(func() {
			_ = s.Client.Resource(namespace.GroupVersion().WithResource("namespaces")).Delete(context.Background(), s.Name("other"), metav1.DeleteOptions{})
		})
		return func() { set(`["` + guard + `"]`) }, func() { set("null") }
	}
	t.Run("and is recreated", func(t *testing.T) {
		s := newSuite(t)
		hold, release := create(t, s)
		hold()
		watched := watchAll(t, s, s.Kind("Guest"), func(o *unstructured.Unstructured) error {
			if reason := testkit.ConditionReason(o, "Ready"); reason == "Forbidden" || reason == "Unavailable" || reason == "Rejected" {
				return fmt.Errorf("is not ready because of %s: %s", reason, testkit.ConditionMessage(o, "Ready"))
			}
			return nil
		})
		s.Delete(t, namespace, "", s.Name("other"))
		s.Await(t, s.Kind("Guest"), s.NS, "x", isWaiting("WaitingForNamespace", "beside: namespace "+s.Name("other")+" is being deleted"))
		release()
		s.AwaitGone(t, namespace, "", s.Name("other"))
		s.Await(t, s.Kind("Guest"), s.NS, "x", isWaiting("WaitingForNamespace", "beside: namespace "+s.Name("other")+" not found"))
		s.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: $ID-other}\n")
		s.AwaitReady(t, s.Kind("Guest"), s.NS, "x")
		for _, name := range []string{"held", "beside"} {
			s.Await(t, suite.ConfigMap, s.Name("other"), name, suite.IsPresent)
		}
		s.Delete(t, s.Kind("Guest"), s.NS, "x")
		s.AwaitGone(t, s.Kind("Guest"), s.NS, "x")
		watched.check(t)
	})
	t.Run("while its instance is being deleted", func(t *testing.T) {
		s := newSuite(t)
		hold, release := create(t, s)
		hold()
		s.Delete(t, s.Kind("Guest"), s.NS, "x")
		s.Await(t, s.Kind("Guest"), s.NS, "x", isBlocked("held", report.HeldByFinalizer, guard))
		s.Delete(t, namespace, "", s.Name("other"))
		s.Await(t, namespace, "", s.Name("other"), isTerminating)
		release()
		s.AwaitGone(t, s.Kind("Guest"), s.NS, "x")
		s.AwaitGone(t, namespace, "", s.Name("other"))
	})
	t.Run("and its instance after it", func(t *testing.T) {
		s := newSuite(t)
		_, _ = create(t, s)
		s.Delete(t, namespace, "", s.Name("other"))
		s.AwaitGone(t, namespace, "", s.Name("other"))
		s.Await(t, s.Kind("Guest"), s.NS, "x", isWaiting("WaitingForNamespace", "beside: namespace "+s.Name("other")+" not found"))
		s.Delete(t, s.Kind("Guest"), s.NS, "x")
		s.AwaitGone(t, s.Kind("Guest"), s.NS, "x")
		awaitGone(t, s, suite.ConfigMap, "home")
	})
}
