package security

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestADefinitionThatPublishedASecretBeforeContinuesToServe starts the controllers as an earlier
// release did, which accepted it, and then with the default.
func TestADefinitionThatPublishedASecretBeforeContinuesToServe(t *testing.T) {
	config := testkit.AnotherServer(t)
	s := suite.Suite{Cluster: testkit.NewCluster(t, config), Config: config, Group: testkit.Group(t), NS: testkit.Namespace(t, config)}
	definition := func(allow string) string {
		return `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: published}
spec:
  allowSecretOutputs: ` + allow + `
  schema: {apiVersion: v1alpha1, kind: Published, group: $GROUP, status: {password: "${string(db.data.password)}"}}
  resources:
    - id: db
      externalRef: {apiVersion: v1, kind: Secret, metadata: {name: db}}
    - id: config
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: config}}
`
	}
	secret := func(password string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: db, namespace: $NS}\nstringData: {password: " + password + "}\n"
	}
	before := suite.Start(t, server.Options{Config: config, Settings: server.Settings{SecretOutputs: graph.WarnOfSecretOutputs}})
	s.Await(t, suite.CRD, "", "resourcegraphdefinitions.kro.run", suite.HasCondition("Established", "True", ""))
	s.Apply(t, secret("one"))
	s.Apply(t, definition("[]"))
	s.Await(t, suite.RGD, "", "published", suite.All(testkit.IsReady, suite.HasCondition("GraphAccepted", "True", "Valid", "secretOutputs: Warn", "spec.schema.status.password: ")))
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Published\nmetadata: {name: x, namespace: $NS}\n")
	s.Await(t, s.Kind("Published"), s.NS, "x", suite.HasField("one", "status", "password"))
	if err := before.Stop(); err != nil {
		t.Fatal(err)
	}

	now := suite.Start(t, server.Options{Config: config})
	defer func() { _ = now.Stop() }()
	s.Await(t, suite.RGD, "", "published", suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph", "spec.schema.status.password: "))
	s.Apply(t, secret("two"))
	s.Await(t, s.Kind("Published"), s.NS, "x", suite.HasField("two", "status", "password"))
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Published\nmetadata: {name: new, namespace: $NS}\n")
	s.Await(t, s.Kind("Published"), s.NS, "new", suite.HasField("two", "status", "password"))
	s.Apply(t, definition("[status.password]"))
	s.Await(t, suite.RGD, "", "published", testkit.IsReady)
}
