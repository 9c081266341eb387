package status

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestAnInstanceIsReconciledWhenTheTimeComes has an object expire, and a condition and the status say so, without an event.
func TestAnInstanceIsReconciledWhenTheTimeComes(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-lease}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Lease
    group: $GROUP
    status:
      over: ${time.now() - schema.metadata.creationTimestamp >= duration("4s")}
      conditions:
        - '${runtime.newCondition({type: "Old", status: time.now() - schema.metadata.creationTimestamp >= duration("5s") ? "True" : "False", reason: "Age"})}'
  resources:
    - id: access
      includeWhen: ["${time.now() < schema.metadata.creationTimestamp + duration('3s')}"]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: access}}
    - id: rest
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: rest}}
`)
	s.AwaitDefinitions(t, "lease")
	s.Apply(t, "\napiVersion: $GROUP/v1alpha1\nkind: Lease\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, s.Kind("Lease"), s.NS, "x", suite.All(suite.HasField(true, "status", "over"), suite.HasCondition("Old", "True", "Age")))
	if s.Get(t, suite.ConfigMap, s.NS, "access") != nil {
		t.Error("the object has not expired before the status says so")
	}
}
