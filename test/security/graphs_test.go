package security

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/standalone"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// graphOf is a Graph of an account, with the text of its nodes.
func graphOf(name, account, nodes string) string {
	return "{apiVersion: kro.run/v1alpha1, kind: Graph, metadata: {name: " + name + ", namespace: $NS}, spec: {" + account + "nodes: [" + nodes + "]}}"
}

const graphAuthor = `{apiGroups: [kro.run], resources: [graphs], verbs: [create, delete, get, patch]}`

// TestOnlyWhoMayUseAnAccountHasItInAGraph has authors name an account, leave the name out, and change nodes of a Graph
// with the account of somebody else.
func TestOnlyWhoMayUseAnAccountHasItInAGraph(t *testing.T) {
	s := suite.New(t)
	stranger := user(t, s, "stranger", s.NS, "["+graphAuthor+"]")
	allowed := user(t, s, "allowed", s.NS, "["+graphAuthor+`, {apiGroups: [""], resources: [serviceaccounts], resourceNames: [builder], verbs: [use]}]`)
	const one, other = "{id: a, def: {x: 1}}", "{id: b, def: {x: 1}}"
	const builder = "serviceAccountName: builder, "
	awaitPolicies(t, s, stranger, graphOf("site", builder, one))
	for _, account := range []string{builder, "", `serviceAccountName: "", `} {
		if err := apply(t, s, stranger, graphOf("site", account, one)); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "of namespace "+s.NS) {
			t.Errorf("a stranger creates a Graph with %q: %v", account, err)
		}
	}
	if err := apply(t, s, allowed, graphOf("site", "", one)); !apierrors.IsForbidden(err) {
		t.Errorf("a user of another account has the default one: %v", err)
	}
	if err := apply(t, s, allowed, graphOf("site", builder, one)); err != nil {
		t.Fatal(err)
	}
	if err := apply(t, s, stranger, graphOf("site", builder, other)); !apierrors.IsForbidden(err) {
		t.Errorf("a stranger changes the nodes: %v", err)
	}
	stranger.Patch(t, graph.GraphKind, s.NS, "site", `{"metadata": {"labels": {"a": "b"}}}`) // which chooses nothing
	itself := user(t, s, "itself", s.NS, "["+graphAuthor+"]")
	if err := apply(t, s, itself, graphOf("own", "serviceAccountName: itself, ", one)); err != nil {
		t.Errorf("an account names itself: %v", err)
	}
}

// TestARollbackOfAGraphIsAdmittedAsAnyChange has a user who may not use the account put back a spec of a Graph.
func TestARollbackOfAGraphIsAdmittedAsAnyChange(t *testing.T) {
	s := suite.New(t)
	const rules = "[" + graphAuthor + `, {apiGroups: [apps], resources: [controllerrevisions], verbs: [get]}]`
	config := userConfig(t, s, "stranger", s.NS, rules)
	awaitPolicies(t, s, testkit.NewCluster(t, config), graphOf("site", "", "{id: a, def: {x: 1}}"))
	const limited = "revisionHistoryLimit: 5, "
	recorded := func(count int) suite.Check {
		return func(o *unstructured.Unstructured) error {
			if got := standalone.Revisions(o); len(got) != count {
				return fmt.Errorf("the revisions are %v", got)
			}
			return nil
		}
	}
	s.AllowImpersonation(t, "default")
	s.Apply(t, graphOf("site", limited, "{id: a, def: {x: 1}}"))
	s.Await(t, graph.GraphKind, s.NS, "site", recorded(1))
	s.Apply(t, graphOf("site", limited, "{id: a, def: {x: 2}}"))
	before := s.Await(t, graph.GraphKind, s.NS, "site", recorded(2))
	var out, errs bytes.Buffer
	code := cli.Main(t.Context(), []string{"rollback", "graph/site", "--namespace", s.NS, "--kubeconfig", testkit.Kubeconfig(t, config)}, &out, &errs)
	if code != 1 || !strings.Contains(errs.String(), "may not use service account default of namespace "+s.NS) {
		t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
	}
	if now := s.Get(t, graph.GraphKind, s.NS, "site"); now.GetGeneration() != before.GetGeneration() {
		t.Error("the Graph has changed")
	}
}

// TestAGraphReadsAndWritesAsItsAccount has a Graph read a Secret of another namespace, bind cluster-admin, create a Graph of
// an account with more permissions, and take over another user's Graph.
func TestAGraphReadsAndWritesAsItsAccount(t *testing.T) {
	s := suite.New(t)
	author := user(t, s, "author", s.NS, "["+graphAuthor+`, {apiGroups: [kro.run], resources: [graphs], verbs: [list, watch]}, {apiGroups: [""], resources: [configmaps], verbs: ["*"]}]`)
	s.Apply(t, `
apiVersion: v1
kind: Secret
metadata: {name: $ID-keys, namespace: kube-system}
stringData: {key: canary}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: mighty, namespace: $NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: controllers, namespace: $NS}
rules: [{apiGroups: [""], resources: [serviceaccounts], resourceNames: [author], verbs: [impersonate]}]
---
`+graphOf("victim", "serviceAccountName: mighty, ", "{id: a, def: {x: 1}}"))
	nodes := map[string]string{
		"loot": `{id: loot, ref: {apiVersion: v1, kind: Secret, metadata: {name: $ID-keys, namespace: kube-system}}},
			{id: copy, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: loot}, data: {key: "${string(loot.data.key)}"}}}`,
		"admin": `{id: admin, template: {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: $ID-admin},
			roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, namespace: $NS, name: author}]}}`,
		"child": `{id: child, template: ` + graphOf("grandchild", "serviceAccountName: mighty, ", "{id: a, def: {x: 1}}") + `}`,
		"taken": `{id: taken, adopt: IfUnowned, template: ` + graphOf("victim", "serviceAccountName: author, ", "{id: b, def: {x: 1}}") + `}`,
	}
	awaitPolicies(t, s, author, graphOf("site", "serviceAccountName: mighty, ", "{id: a, def: {x: 1}}"))
	for name, text := range nodes {
		if err := apply(t, s, author, graphOf(name, "serviceAccountName: author, ", text)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	denied := s.Await(t, graph.GraphKind, s.NS, "child", suite.HasCondition("ResourcesConverged", "False", "ApplyFailed"))
	if got := testkit.ConditionMessage(denied, "ResourcesConverged"); !strings.Contains(got, "Grant the controllers the verb impersonate") {
		t.Errorf("the condition does not say what to do: %s", got)
	}
	s.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: controllers, namespace: $NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: controllers}
subjects: [{kind: ServiceAccount, namespace: espalier-system, name: espalier-controllers}]
`)
	for name, want := range map[string]string{
		"loot":  s.NS + `:author" cannot list resource "secrets"`,
		"admin": s.NS + `:author" cannot list resource "clusterrolebindings"`,
		"child": "may not use service account mighty",
		"taken": "victim already exists",
	} {
		s.Await(t, graph.GraphKind, s.NS, name, suite.HasCondition("ResourcesConverged", "False", "", want))
	}
	if s.Get(t, suite.ConfigMap, s.NS, "loot") != nil || s.Get(t, clusterRoleBinding, "", s.Name("admin")) != nil || s.Get(t, graph.GraphKind, s.NS, "grandchild") != nil {
		t.Error("a Graph has used permissions that its account does not have")
	}
	if victim := testkit.JSON(s.Get(t, graph.GraphKind, s.NS, "victim")); !strings.Contains(victim, `"mighty"`) {
		t.Errorf("a Graph has taken over another: %s", victim)
	}
}
