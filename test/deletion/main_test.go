// Package deletion proves that the deletion of an instance ends, in the right order, and reports
// what blocks it, on a real API server with its garbage collector. The controllers run as a user
// with the permissions that a test grants.
package deletion

import (
	"os"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) {
	as := &rest.Config{Impersonate: rest.ImpersonationConfig{UserName: "espalier-test"}, WrapTransport: requests.WrapTransport}
	os.Exit(suite.Main(m, server.Options{Config: as}, func(t *testing.T, w *testkit.Cluster) { w.Apply(t, rights) }))
}

// requests counts the requests of the controllers.
var requests testkit.Counter

// rights are the permissions for the kinds that every test uses. newSuite grants those for the
// test's own kinds.
const rights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: espalier-test}
rules:
  - {apiGroups: [kro.run, internal.kro.run, espalier.dev, apiextensions.crossplane.io, pkg.crossplane.io, apiextensions.k8s.io, apiregistration.k8s.io, authorization.k8s.io, rbac.authorization.k8s.io, ""], resources: ["*"], verbs: ["*"]}
  - {apiGroups: [admissionregistration.k8s.io], resources: ["*"], verbs: [list]}
  - {nonResourceURLs: ["*"], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: espalier-test}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: espalier-test}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: espalier-test}]
`

// granted are all permissions for the kinds of the test's group and of the leaf group.
const granted = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-granted}
rules: [{apiGroups: [$GROUP, leaf.$GROUP], resources: ["*"], verbs: ["*"]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-granted}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-granted}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: espalier-test}]
`

// newSuite returns a Suite; the controllers have all permissions for its kinds.
func newSuite(t *testing.T) suite.Suite {
	t.Helper()
	s := suite.New(t)
	s.Apply(t, granted)
	return s
}

// newSerialSuite is newSuite for a test that measures.
func newSerialSuite(t *testing.T) suite.Suite {
	t.Helper()
	s := suite.NewSerial(t)
	s.Apply(t, granted)
	return s
}
