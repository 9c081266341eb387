package deletion

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// shared is a kind whose instances all have a child of the same name, on which a child with a name
// of its own depends.
var shared = suite.Graph("Shared", "", `
    - id: fixed
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: fixed}}
    - id: own
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-own"}, data: {of: "${fixed.metadata.name}"}}
`)

func createShared(t *testing.T, s suite.Suite, name string) {
	t.Helper()
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Shared\nmetadata: {name: "+name+", namespace: $NS}\n")
}

// hasState checks status.state, after another check.
func hasState(state string, then func(*unstructured.Unstructured) error) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if err := then(o); err != nil {
			return err
		}
		if got := string(report.Read(o).State); got != state {
			return errors.New("is " + got)
		}
		return nil
	}
}

// TestAnInstanceWaitsForANameOfATerminatingOne has two instances with a child of the same name, and
// deletes the owner of that child.
func TestAnInstanceWaitsForANameOfATerminatingOne(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, shared)
	s.AwaitDefinitions(t, "shared")
	createShared(t, s, "old")
	s.AwaitReady(t, s.Kind("Shared"), s.NS, "old")

	t.Log("while its owner exists, the child is reported as owned")
	createShared(t, s, "new")
	s.Await(t, s.Kind("Shared"), s.NS, "new", hasState("ERROR", notReadyBecause("NotOwned", "Shared "+s.NS+"/old", "fixed")))

	t.Log("while its owner is terminating, the name is reported as held")
	setFinalizers(t, s, suite.ConfigMap, "old-own", "example.com/guard")
	setFinalizers(t, s, suite.ConfigMap, "fixed", "example.com/guard")
	s.Delete(t, s.Kind("Shared"), s.NS, "old")
	s.Await(t, s.Kind("Shared"), s.NS, "new", hasState("IN_PROGRESS", notReadyBecause("NameHeld", "ConfigMap "+s.NS+"/fixed", "Shared "+s.NS+"/old", "being deleted")))

	t.Log("while the child is terminating, its finalizer is reported")
	setFinalizers(t, s, suite.ConfigMap, "old-own")
	s.Await(t, s.Kind("Shared"), s.NS, "old", isBlocked("fixed", report.HeldByFinalizer))
	s.Await(t, s.Kind("Shared"), s.NS, "new", hasState("IN_PROGRESS", notReadyBecause("NameHeld", "fixed", "example.com/guard")))

	t.Log("when the child is deleted, the new instance creates its own")
	held := s.Get(t, suite.ConfigMap, s.NS, "fixed").GetUID()
	setFinalizers(t, s, suite.ConfigMap, "fixed")
	s.AwaitReady(t, s.Kind("Shared"), s.NS, "new")
	s.AwaitGone(t, s.Kind("Shared"), s.NS, "old")
	if o := s.Get(t, suite.ConfigMap, s.NS, "fixed"); o == nil || o.GetUID() == held || o.GetLabels()["kro.run/instance-name"] != "new" {
		t.Errorf("the new instance has %s", testkit.JSON(o))
	}
}

// TestAnInstanceWaitsForATerminatingForeignObject has a terminating object of the name that no instance
// owns.
func TestAnInstanceWaitsForATerminatingForeignObject(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, shared)
	s.AwaitDefinitions(t, "shared")
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fixed, namespace: $NS, finalizers: [example.com/guard]}\n")
	s.Delete(t, suite.ConfigMap, s.NS, "fixed")
	createShared(t, s, "new")
	s.Await(t, s.Kind("Shared"), s.NS, "new", hasState("IN_PROGRESS", notReadyBecause("NameHeld", "fixed", "example.com/guard")))
	setFinalizers(t, s, suite.ConfigMap, "fixed")
	s.AwaitReady(t, s.Kind("Shared"), s.NS, "new")
}
