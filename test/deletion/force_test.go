package deletion

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestABlockerIsReleasedByName blocks the deletion of both leaves of a nest; a user releases one by
// name, and then all.
func TestABlockerIsReleasedByName(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	for _, name := range []string{"x-leaf", "x-below"} {
		setFinalizers(t, s, leaf(s), name, "example.com/guard")
	}
	s.Delete(t, s.Kind("Low"), s.NS, "x")
	s.Await(t, s.Kind("Low"), s.NS, "x", isBlocked("x-leaf", report.HeldByFinalizer))

	annotate(t, s, s.Kind("Low"), "x", "espalier.dev/force-delete", "leaf")
	s.Await(t, s.Kind("Low"), s.NS, "x", isBlocked("x-below", report.HeldByFinalizer))
	s.AwaitEvent(t, "x", "ForceDeleted", "somebody", "leaf", "x-leaf", "example.com/guard")

	annotate(t, s, s.Kind("Low"), "x", "espalier.dev/force-delete", "all")
	s.AwaitEvent(t, "x", "ForceDeleted", "somebody", "all", "x-below", "example.com/guard")
	s.Await(t, s.Kind("Low"), s.NS, "x", func(o *unstructured.Unstructured) error {
		if o != nil && o.GetDeletionTimestamp() != nil {
			return errors.New("is still being deleted")
		}
		return nil
	})
	for _, name := range []string{"x-leaf", "x-below"} {
		o := s.Get(t, leaf(s), s.NS, name)
		if o == nil || len(o.GetFinalizers()) != 1 {
			t.Errorf("%s was not left unchanged: %s", name, testkit.JSON(o))
		}
		setFinalizers(t, s, leaf(s), name)
	}
}

// hasty is a definition that releases blockers after two seconds.
const hasty = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-hasty}
spec:
  deletion: {forceAfter: 2s}
  schema: {apiVersion: v1alpha1, kind: Hasty, group: $GROUP}
  resources:
    - id: content
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-content"}}
`

func createHasty(t *testing.T) suite.Suite {
	t.Helper()
	s := newSuite(t)
	s.Apply(t, hasty)
	s.AwaitDefinitions(t, "hasty")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Hasty\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Hasty"), s.NS, "x")
	return s
}

// TestForceAfterReleasesBlockers has forceAfter set to two seconds in the definition.
func TestForceAfterReleasesBlockers(t *testing.T) {
	s := createHasty(t)
	setFinalizers(t, s, suite.ConfigMap, "x-content", "example.com/guard")
	s.Delete(t, s.Kind("Hasty"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Hasty"), s.NS, "x")
	s.AwaitEvent(t, "x", "ForceDeleted", "spec.deletion.forceAfter", "x-content")
	setFinalizers(t, s, suite.ConfigMap, "x-content")
}

// TestAForeignFinalizerIsReported puts a foreign finalizer on the
// lowest instance of a nest.
func TestAForeignFinalizerIsReported(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	low := s.Get(t, s.Kind("Low"), s.NS, "x")
	setFinalizers(t, s, s.Kind("Low"), "x", append(low.GetFinalizers(), "example.com/guard")...)
	s.Delete(t, s.Kind("Top"), s.NS, "x")
	for _, kind := range layers {
		s.Await(t, s.Kind(kind), s.NS, "x", isBlocked("Low "+s.NS+"/x", report.HeldByFinalizer, "example.com/guard", "somebody"))
	}
	if list := s.List(t, leaf(s), s.NS, ""); len(list) > 0 {
		t.Errorf("there are %d leaves", len(list))
	}
	setFinalizers(t, s, s.Kind("Low"), "x")
	s.AwaitGone(t, s.Kind("Top"), s.NS, "x")
}

// TestATerminatingChildIsReportedAbove deletes the lowest instance, whose deletion is blocked: the
// instances above, which are not deleted, report what their node waits for.
func TestATerminatingChildIsReportedAbove(t *testing.T) {
	s := newSuite(t)
	build(t, s)
	setFinalizers(t, s, leaf(s), "x-leaf", "example.com/guard")
	s.Delete(t, s.Kind("Low"), s.NS, "x")
	for _, kind := range layers[1:] {
		s.Await(t, s.Kind(kind), s.NS, "x", func(o *unstructured.Unstructured) error {
			return containsAll(testkit.ConditionMessage(o, "Ready"), "x-leaf", "example.com/guard")
		})
	}
	setFinalizers(t, s, leaf(s), "x-leaf")
	s.AwaitReady(t, s.Kind("Top"), s.NS, "x")
}
