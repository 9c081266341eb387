package deletion

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// shared is a kind whose instances all want an object of one name, below another
// that is theirs.
const shared = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-shared}
spec:
  schema: {apiVersion: v1alpha1, kind: Shared, group: $GROUP}
  resources:
    - id: fixed
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: fixed}}
    - id: own
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-own"}, data: {of: "${fixed.metadata.name}"}}
`

func put(t *testing.T, s suite.Suite, name string) {
	t.Helper()
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Shared\nmetadata: {name: "+name+", namespace: $NS}\n")
}

// stateIs checks status.state, and then something else.
func stateIs(state string, then func(*unstructured.Unstructured) error) func(*unstructured.Unstructured) error {
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

func TestANewcomerWaitsForANameThatIsHeld(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, shared)
	s.AwaitDefinitions(t, "shared")
	put(t, s, "old")
	s.AwaitReady(t, s.Kind("Shared"), s.NS, "old")

	t.Log("while the holder lives, its object is its own")
	put(t, s, "new")
	s.Await(t, s.Kind("Shared"), s.NS, "new", stateIs("ERROR", notReadyBecause("NotOwned", "Shared "+s.NS+"/old", "fixed")))

	t.Log("while the holder goes and its object does not yet, the name is held")
	setFinalizers(t, s, suite.ConfigMap, "old-own", "example.com/guard")
	setFinalizers(t, s, suite.ConfigMap, "fixed", "example.com/guard")
	s.Delete(t, s.Kind("Shared"), s.NS, "old")
	s.Await(t, s.Kind("Shared"), s.NS, "new", stateIs("IN_PROGRESS", notReadyBecause("NameHeld", "ConfigMap "+s.NS+"/fixed", "Shared "+s.NS+"/old", "being deleted")))

	t.Log("and while its object goes as well")
	setFinalizers(t, s, suite.ConfigMap, "old-own")
	s.Await(t, s.Kind("Shared"), s.NS, "old", isBlocked("fixed", report.HeldByFinalizer))
	s.Await(t, s.Kind("Shared"), s.NS, "new", stateIs("IN_PROGRESS", notReadyBecause("NameHeld", "fixed", "example.com/guard")))

	t.Log("then the newcomer continues by itself")
	held := s.Get(t, suite.ConfigMap, s.NS, "fixed").GetUID()
	setFinalizers(t, s, suite.ConfigMap, "fixed")
	s.AwaitReady(t, s.Kind("Shared"), s.NS, "new")
	s.AwaitGone(t, s.Kind("Shared"), s.NS, "old")
	if o := s.Get(t, suite.ConfigMap, s.NS, "fixed"); o == nil || o.GetUID() == held || o.GetLabels()["kro.run/instance-name"] != "new" {
		t.Errorf("the newcomer has %s", testkit.JSON(o))
	}
}

func TestATerminatingForeignObjectIsWaitedFor(t *testing.T) {
	s := newSuite(t)
	s.Apply(t, shared)
	s.AwaitDefinitions(t, "shared")
	s.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: fixed, namespace: $NS, finalizers: [example.com/guard]}\n")
	s.Delete(t, suite.ConfigMap, s.NS, "fixed")
	put(t, s, "new")
	s.Await(t, s.Kind("Shared"), s.NS, "new", stateIs("IN_PROGRESS", notReadyBecause("NameHeld", "fixed", "example.com/guard")))
	setFinalizers(t, s, suite.ConfigMap, "fixed")
	s.AwaitReady(t, s.Kind("Shared"), s.NS, "new")
}
