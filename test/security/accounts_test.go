package security

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var clusterRoleBinding = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}

// apply applies objects as a user.
func apply(t *testing.T, s suite.Suite, as *testkit.Cluster, yaml string) error {
	t.Helper()
	var failed []error
	for _, o := range testkit.Parse(t, s.Expand(yaml)) {
		_, err := as.TryApply(t, o)
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// accountRules grant a service account of the test's namespace what instances of a kind need
// that only has ConfigMaps.
const accountRules = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-%[1]s}
rules:
- {apiGroups: [$GROUP], resources: ["*"], verbs: [get, list, patch, update]}
- {apiGroups: [""], resources: [configmaps], verbs: [create, delete, get, list, patch, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-%[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-%[1]s}
subjects: [{kind: ServiceAccount, namespace: $NS, name: %[1]s}]
`

// TestANamespacedAuthorGetsTheAccountOfTheNamespace reads a Secret of another namespace and binds
// cluster-admin from a ResourceGroup that names no service account.
func TestANamespacedAuthorGetsTheAccountOfTheNamespace(t *testing.T) {
	s := suite.New(t)
	author := user(t, s, "author", s.NS, `[{apiGroups: [kro.run], resources: [resourcegroups], verbs: [create, get, patch]}]`)
	s.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: $ID-keys, namespace: kube-system}\nstringData: {key: canary}\n")
	err := apply(t, s, author, `
apiVersion: kro.run/v1alpha1
kind: ResourceGroup
metadata: {name: attack, namespace: $NS}
spec:
  schema: {apiVersion: v1alpha1, kind: Attack, group: $GROUP}
  resources:
    - id: loot
      externalRef: {apiVersion: v1, kind: Secret, metadata: {name: $ID-keys, namespace: kube-system}}
    - id: copy
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: loot}, data: {key: "${string(loot.data.key)}"}}
    - id: admin
      template:
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata: {name: $ID-admin}
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
        subjects: [{kind: ServiceAccount, namespace: $NS, name: author}]
`)
	if err != nil {
		t.Fatal(err)
	}
	missing := s.Await(t, suite.RG, s.NS, "attack", suite.HasCondition("ControllerReady", "False", "ServiceAccountNotFound"))
	for _, want := range []string{"kubectl create serviceaccount espalier --namespace " + s.NS, "espalier rbac attack --namespace " + s.NS} {
		if got := testkit.ConditionMessage(missing, "ControllerReady"); !strings.Contains(got, want) {
			t.Errorf("the condition does not say %q: %s", want, got)
		}
	}

	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Attack\nmetadata: {name: x, namespace: $NS}\n")
	s.Apply(t, fmt.Sprintf("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: espalier, namespace: $NS}\n---"+accountRules, "espalier"))
	s.Await(t, suite.RG, s.NS, "attack", suite.HasCondition("ControllerReady", "True", "Running"))
	s.Await(t, suite.RG, s.NS, "attack", suite.HasCondition("PermissionsGranted", "False", "Forbidden", "system:serviceaccount:"+s.NS+":espalier lacks"))
	s.Await(t, s.Kind("Attack"), s.NS, "x", func(o *unstructured.Unstructured) error {
		if got := testkit.ConditionMessage(o, "Ready"); !strings.Contains(got, "forbidden") {
			return errors.New("the instance says " + got)
		}
		return nil
	})
	if s.Get(t, clusterRoleBinding, "", s.Name("admin")) != nil {
		t.Error("the author is cluster-admin")
	}
	if s.Get(t, suite.ConfigMap, s.NS, "loot") != nil {
		t.Error("the author has read a Secret of another namespace")
	}
}

// TestServiceAccountsAreRequired defines a kind for the whole cluster without an account: with
// --require-service-account nobody gets the controllers' permissions.
func TestServiceAccountsAreRequired(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-site}
spec:
  schema: {apiVersion: v1alpha1, kind: Site, group: $GROUP}
  resources: [{id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}}}]
`)
	s.Await(t, suite.RGD, "", s.Name("site"), suite.HasCondition("GraphAccepted", "False", "InvalidResourceGraph", "spec.serviceAccount: is required (--require-service-account"))
}

// awaitPolicies waits until the API server evaluates the policies, a moment after they are
// created: until a dry run of what they refuse fails.
func awaitPolicies(t *testing.T, s suite.Suite, as *testkit.Cluster, refused string) {
	t.Helper()
	o := testkit.Parse(t, s.Expand(refused))[0]
	testkit.Poll(t, "the policies are in force", func() bool {
		_, err := as.Resource(t, o.GroupVersionKind(), o.GetNamespace()).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test", DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err)
	})
}

// TestOnlyWhoMayUseAnAccountNamesIt has an author name an account, and change what it does.
func TestOnlyWhoMayUseAnAccountNamesIt(t *testing.T) {
	s := suite.New(t)
	const definitions = `{apiGroups: [kro.run], resources: [resourcegraphdefinitions], verbs: [create, get, patch]}`
	stranger := user(t, s, "stranger", "", "["+definitions+"]")
	allowed := user(t, s, "allowed", "", "["+definitions+`, {apiGroups: [""], resources: [serviceaccounts], resourceNames: [builder], verbs: [use]}]`)
	const definition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-site, annotations: {%s}}
spec:
  serviceAccount: {namespace: $NS, name: builder}
  schema: {apiVersion: v1alpha1, kind: Site, group: $GROUP}
  resources: [{id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {text: %s}}}]
`
	refused := func(what, yaml string) {
		t.Helper()
		err := apply(t, s, stranger, yaml)
		if !apierrors.IsForbidden(err) {
			t.Fatalf("%s is not refused: %v", what, err)
		}
		if want := "may not use service account builder of namespace " + s.NS; !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error does not say %q: %v", what, want, err)
		}
	}
	awaitPolicies(t, s, stranger, fmt.Sprintf(definition, "", "one"))
	refused("a definition", fmt.Sprintf(definition, "", "one"))
	if err := apply(t, s, allowed, fmt.Sprintf(definition, "", "one")); err != nil {
		t.Fatal(err)
	}
	refused("another content", fmt.Sprintf(definition, "", "two"))
	refused("a rollback", fmt.Sprintf(definition, `espalier.dev/rollback-to: "1"`, "one"))
	if err := apply(t, s, stranger, fmt.Sprintf(definition, `example.com/note: "harmless"`, "one")); err != nil {
		t.Errorf("a change that is none of the account's: %v", err)
	}
}

// TestARevisionIsReconciledAsItsAccount changes content and account, and rolls the content back:
// content that was written for one account never gets the permissions of another.
func TestARevisionIsReconciledAsItsAccount(t *testing.T) {
	s := suite.New(t)
	const definition = `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-site, annotations: {%s}}
spec:
  serviceAccount: {namespace: $NS, name: %s}
  schema: {apiVersion: v1alpha1, kind: Site, group: $GROUP}
  resources: [{id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {text: %s}}}]
`
	s.Apply(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: builder, namespace: $NS}\n---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: nobody, namespace: $NS}\n")
	s.Apply(t, fmt.Sprintf(accountRules, "builder"))
	s.Apply(t, fmt.Sprintf(definition, "", "builder", "one"))
	s.AwaitDefinitions(t, "site")
	s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Site\nmetadata: {name: x, namespace: $NS}\n")
	s.AwaitReady(t, s.Kind("Site"), s.NS, "x")

	s.Apply(t, fmt.Sprintf(definition, "", "nobody", "one"))
	s.Await(t, suite.RGD, "", s.Name("site"), suite.HasCondition("PermissionsGranted", "False", "Forbidden", ":nobody lacks"))
	s.Patch(t, suite.ConfigMap, s.NS, "x", `{"data": {"text": "drifted"}}`)
	s.Apply(t, fmt.Sprintf(definition, `espalier.dev/rollback-to: "1"`, "nobody", "one"))
	s.Await(t, suite.RGD, "", s.Name("site"), suite.HasCondition("GraphRevisionsResolved", "False", "RevisionInvalid", "it is reconciled as system:serviceaccount:"+s.NS+":builder; name that in spec.serviceAccount"))
	s.Apply(t, fmt.Sprintf(definition, `espalier.dev/rollback-to: "1"`, "builder", "one"))
	s.Await(t, suite.ConfigMap, s.NS, "x", suite.HasField("one", "data", "text"))
	accounts := map[string]bool{}
	for _, o := range s.List(t, schema.GroupVersionKind{Group: "internal.kro.run", Version: "v1alpha1", Kind: "GraphRevision"}, "", "kro.run/resource-graph-definition-name="+s.Name("site")) {
		account, _, _ := unstructured.NestedString(o.Object, "spec", "account")
		accounts[strings.TrimPrefix(account, "system:serviceaccount:"+s.NS+":")] = true
	}
	if len(accounts) != 2 || !accounts["builder"] || !accounts["nobody"] {
		t.Errorf("the revisions record %v", accounts)
	}
}
