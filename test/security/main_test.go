// Package security attacks a running Espalier as the users that docs/security.md names, on a
// real API server with RBAC: each test is one way past the permissions of the cluster.
package security

import (
	"os"
	"testing"

	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) {
	log := funcr.New(logged.note, funcr.Options{Verbosity: 3})
	os.Exit(suite.Main(m, server.Options{Settings: server.Settings{AdmissionPolicies: true, RequireServiceAccount: true, Graphs: true, ResourceGroups: server.ResourceGroups{APIGroups: []string{"kro.run", "*.example.com"}}, Usages: true}, Log: log}, nil))
}

// user is a client with a token and with the rules of a ClusterRole in one namespace, or in all
// if that is empty.
func user(t *testing.T, s suite.Suite, name, namespace, rules string) *testkit.Cluster {
	t.Helper()
	return testkit.NewCluster(t, userConfig(t, s, name, namespace, rules))
}

// userConfig is the connection of a user.
func userConfig(t *testing.T, s suite.Suite, name, namespace, rules string) *rest.Config {
	t.Helper()
	as := rest.AnonymousClientConfig(s.Config)
	as.BearerToken = tokenOf(t, s, name, namespace, rules)
	return as
}

// tokenOf is the token of a user.
func tokenOf(t *testing.T, s suite.Suite, name, namespace, rules string) string {
	t.Helper()
	scope, where := "ClusterRole", ""
	if namespace != "" {
		scope, where = "Role", ", namespace: "+namespace
	}
	s.Apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: `+name+`, namespace: $NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: `+scope+`
metadata: {name: $ID-`+name+where+`}
rules: `+rules+`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: `+scope+`Binding
metadata: {name: $ID-`+name+where+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: `+scope+`, name: $ID-`+name+`}
subjects: [{kind: ServiceAccount, namespace: $NS, name: `+name+`}]
`)
	tokens := kubernetes.NewForConfigOrDie(s.Config).CoreV1().ServiceAccounts(s.NS)
	token, err := tokens.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return token.Status.Token
}
