package status

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestAKindThatCantBeReadStaysInTheInventory(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.SubnetCRD)
	maker := suite.Graph("Maker", "", `
    - id: made
      template: {apiVersion: %s, metadata: {name: x}}
`)
	s.Apply(t, fmt.Sprintf(maker, "$GROUP/v1alpha1, kind: Subnet"))
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Maker\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, s.Kind("Subnet"), s.NS, "x", suite.IsPresent)
	s.AwaitReady(t, s.Kind("Maker"), s.NS, "x")

	t.Log("the kind is not served for a while, and the definition no longer uses it")
	s.Apply(t, strings.Replace(suite.SubnetCRD, "served: true", "served: false", 1))
	s.Apply(t, fmt.Sprintf(maker, "v1, kind: ConfigMap"))
	s.Await(t, suite.ConfigMap, s.NS, "x", suite.IsPresent)
	s.Await(t, s.Kind("Maker"), s.NS, "x", suite.All(suite.HasField("ConfigMap,Subnet."+s.Group, "metadata", "annotations", "applyset.kubernetes.io/contains-group-kinds")))

	t.Log("served again, its object is found and pruned")
	s.Apply(t, suite.SubnetCRD)
	s.Await(t, s.Kind("Maker"), s.NS, "x", suite.All(suite.HasField("ConfigMap", "metadata", "annotations", "applyset.kubernetes.io/contains-group-kinds")))
	s.AwaitGone(t, s.Kind("Subnet"), s.NS, "x")
}

func TestANamespaceThatIsMissingIsWaitedFor(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Guest", "", `
    - id: inside
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: inside, namespace: $ID-later}, data: {a: b}}
`))
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Guest\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, s.Kind("Guest"), s.NS, "x", suite.All(suite.HasCondition("Ready", "False", "WaitingForNamespace", "namespace "+s.Name("later")+" not found"), suite.HasField("IN_PROGRESS", "status", "state")))
	s.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: $ID-later}\n")
	s.AwaitReady(t, s.Kind("Guest"), s.NS, "x")
	s.Delete(t, s.Kind("Guest"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Guest"), s.NS, "x")
}

func TestTimeoutsExpireWithoutAStatusField(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.Graph("Busy", `status: {waiting: "${first.data.a}"}`, `
    - id: first
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {a: b}}
    - id: second
      waitFor: {first: {fields: [data.never], timeout: 2s}}
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: second}, data: {a: b}}
`))
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Busy\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, s.Kind("Busy"), s.NS, "x", suite.All(suite.HasField("b", "status", "waiting"), suite.HasCondition("Stalled", "True", "WaitTimeout", "second waits for first.data.never")))
}

func TestFieldsThatTheServerIgnoresAreNoDrift(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, suite.SubnetCRD)
	s.Apply(t, suite.Graph("Eager", "", `
    - id: made
      template: {apiVersion: $GROUP/v1alpha1, kind: Subnet, metadata: {name: x}, spec: {cidr: 10.0.0.0/8}, status: {id: mine}}
`))
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Eager\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Eager"), s.NS, "x")
	before := s.Get(t, s.Kind("Subnet"), s.NS, "x")
	s.SetStatus(t, s.Kind("Subnet"), s.NS, "x", map[string]any{"id": "theirs"})
	patch := `{"metadata":{"labels":{"touched":"yes"}}}`
	s.Patch(t, s.Kind("Eager"), s.NS, "x", patch)
	s.Await(t, s.Kind("Subnet"), s.NS, "x", suite.All(suite.HasField("theirs", "status", "id"), func(o *unstructured.Unstructured) error {
		if o.GetGeneration() != before.GetGeneration() {
			return fmt.Errorf("was written again")
		}
		return nil
	}))
	if err := testkit.IsReady(s.Get(t, s.Kind("Eager"), s.NS, "x")); err != nil {
		t.Error(err)
	}
}
