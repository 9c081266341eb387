package security

import (
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestInstancesDoNotMultiplyWithoutEnd has two definitions create instances of each other.
func TestInstancesDoNotMultiplyWithoutEnd(t *testing.T) {
	s := suite.New(t)
	s.Account(t, rbac.DefaultServiceAccount)
	each := func(kind, other string) string {
		return `
apiVersion: kro.run/v1alpha1
kind: ResourceGroup
metadata: {name: ` + strings.ToLower(kind) + `, namespace: $NS}
spec:
  schema: {apiVersion: v1alpha1, kind: ` + kind + `, group: $GROUP}
  resources:
    - id: next
      template: {apiVersion: $GROUP/v1alpha1, kind: ` + other + `, metadata: {name: "${schema.metadata.name}x"}}
---`
	}
	s.Apply(t, each("Ping", "Pong")+each("Pong", "Ping")+`
apiVersion: $GROUP/v1alpha1
kind: Ping
metadata: {name: a, namespace: $NS}
`)
	deepest := "a" + strings.Repeat("x", plan.MaxDepth)
	s.Await(t, s.Kind("Ping"), s.NS, deepest, suite.HasCondition("Ready", "False", "", "more than 10 instances are nested in each other (instanceLimits.depth)"))
	if s.Get(t, s.Kind("Pong"), s.NS, deepest+"x") != nil {
		t.Error("an instance beyond the limit has created another one")
	}
	s.Delete(t, s.Kind("Ping"), s.NS, "a")
	s.AwaitGone(t, s.Kind("Ping"), s.NS, "a")
}
