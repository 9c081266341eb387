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
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var (
	secretKind    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
	eventKind     = schema.GroupVersionKind{Version: "v1", Kind: "Event"}
	namespaceKind = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	roleBinding   = schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "RoleBinding"}
)

// roleIn grants the account espalier of the test's namespace what instances of a kind with ConfigMaps
// and Secrets need in one namespace.
const roleIn = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: site, namespace: %[1]s}
rules:
- {apiGroups: [$GROUP], resources: ["*"], verbs: [get, list, patch, update]}
- {apiGroups: [""], resources: [configmaps, secrets], verbs: [create, delete, get, list, patch, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: site, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: site}
subjects: [{kind: ServiceAccount, namespace: $NS, name: espalier}]
`

// account is the account of the test's namespace. An administrator lets the controllers of an
// installation remove finalizers of instances in namespaces that are being deleted, as 'espalier rbac'
// prints it, and impersonate the account also when the Role for that is gone with the namespace.
const account = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: espalier, namespace: $NS}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-controllers}
rules:
- {apiGroups: [$GROUP], resources: [sites], verbs: [patch]}
- {apiGroups: [""], resources: [serviceaccounts], resourceNames: [espalier], verbs: [impersonate]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-controllers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-controllers}
subjects: [{kind: ServiceAccount, namespace: espalier-system, name: espalier-controllers}]
`

// siteGroup composes a ConfigMap and a Secret in the namespace that the instance names, or in its own.
const siteGroup = `
apiVersion: kro.run/v1alpha1
kind: ResourceGroup
metadata: {name: site, namespace: $NS}
spec:
  schema: {apiVersion: v1alpha1, kind: Site, group: $GROUP, spec: {text: string, where: string | default=""}}
  resources:
    - {id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-page"}, data: {text: "${schema.spec.text}"}}}
    - id: key
      template:
        apiVersion: v1
        kind: Secret
        metadata: {name: "${schema.metadata.name}-key", namespace: "${schema.spec.where == '' ? schema.metadata.namespace : schema.spec.where}"}
        stringData: {of: "${page.metadata.name}"}
`

const site = "apiVersion: $GROUP/v1alpha1\nkind: Site\nmetadata: {name: %[1]s, namespace: %[2]s}\nspec: {text: %[3]s, where: %[4]q}\n"

// mayNotListSecrets checks that the account reads Secrets of the test's namespace and of no other.
func mayNotListSecrets(t *testing.T, s suite.Suite, namespaces ...string) {
	t.Helper()
	as := rest.CopyConfig(s.Config)
	as.Impersonate.UserName = "system:serviceaccount:" + s.NS + ":espalier"
	for _, namespace := range append(namespaces, "") {
		if _, err := testkit.NewCluster(t, as).Resource(t, secretKind, namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Fatalf("the account may list Secrets in %q: %v", namespace, err)
		}
	}
}

// TestARoleInANamespaceSufficesForItsAuthors lets a namespaced author with a Role in the namespace
// do all that instances need: nobody has to grant the account a ClusterRole, with which its authors
// could read the Secrets of all namespaces.
func TestARoleInANamespaceSufficesForItsAuthors(t *testing.T) {
	s := suite.New(t)
	author := user(t, s, "author", s.NS, `[{apiGroups: [kro.run], resources: [resourcegroups], verbs: [create, get, patch]}]`)
	s.Apply(t, account+"---"+fmt.Sprintf(roleIn, s.NS))
	mayNotListSecrets(t, s, "kube-system")
	if err := apply(t, s, author, siteGroup); err != nil {
		t.Fatal(err)
	}
	s.Await(t, suite.RG, s.NS, "site", suite.HasCondition("ControllerReady", "True", "Running"))
	s.Await(t, suite.RG, s.NS, "site", suite.HasCondition("PermissionsGranted", "True", "Granted"))
	s.Apply(t, fmt.Sprintf(site, "x", s.NS, "one", ""))
	s.AwaitReady(t, s.Kind("Site"), s.NS, "x")
	s.Await(t, suite.ConfigMap, s.NS, "x-page", suite.HasField("one", "data", "text"))

	s.Apply(t, fmt.Sprintf(site, "x", s.NS, "two", ""))
	s.Await(t, suite.ConfigMap, s.NS, "x-page", suite.HasField("two", "data", "text"))
	s.Patch(t, suite.ConfigMap, s.NS, "x-page", `{"data": {"text": "drifted"}}`)
	s.Await(t, suite.ConfigMap, s.NS, "x-page", suite.HasField("two", "data", "text"))
	s.Delete(t, secretKind, s.NS, "x-key")
	testkit.Poll(t, "the Secret is created again", func() bool { return s.Get(t, secretKind, s.NS, "x-key") != nil })

	s.Delete(t, s.Kind("Site"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Site"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-page")
	s.AwaitGone(t, secretKind, s.NS, "x-key")
}

// otherNamespace creates another namespace.
func otherNamespace(t *testing.T, s suite.Suite, name string) string {
	t.Helper()
	s.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: $ID-"+name+"}\n")
	return s.Name(name)
}

// TestAnInstanceElsewhereSaysWhatItsAccountLacksThere creates an instance where the account has no
// permissions, and then some. It continues without a restart.
func TestAnInstanceElsewhereSaysWhatItsAccountLacksThere(t *testing.T) {
	s := suite.New(t)
	prod := otherNamespace(t, s, "prod")
	s.Apply(t, account+"---"+fmt.Sprintf(roleIn, s.NS)+"---"+siteGroup)
	s.Await(t, suite.RG, s.NS, "site", suite.HasCondition("PermissionsGranted", "True", "Granted"))
	s.Apply(t, fmt.Sprintf(site, "x", prod, "one", ""))
	testkit.Poll(t, "an event says what is missing", func() bool {
		for _, e := range s.List(t, eventKind, prod, "") {
			note, _, _ := unstructured.NestedString(e.Object, "message")
			if strings.Contains(note, "Forbidden to update sites."+s.Group+"/status") && strings.Contains(note, "espalier rbac site --namespace "+s.NS+" --instance-namespace "+prod) {
				return true
			}
		}
		return false
	})
	s.Apply(t, fmt.Sprintf(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: instances, namespace: %[1]s}
rules: [{apiGroups: [$GROUP], resources: ["*"], verbs: [get, list, patch, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: instances, namespace: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: instances}
subjects: [{kind: ServiceAccount, namespace: $NS, name: espalier}]
`, prod))
	s.Await(t, s.Kind("Site"), prod, "x", func(o *unstructured.Unstructured) error {
		got := testkit.JSON(o)
		for _, want := range []string{`list configmaps is forbidden`, `in the namespace \"` + prod + `\"`, "system:serviceaccount:" + s.NS + ":espalier"} {
			if !strings.Contains(got, want) {
				return errors.New("it does not say " + want + ": " + got)
			}
		}
		return nil
	})
	if list := s.List(t, suite.ConfigMap, prod, "kro.run/owned"); len(list) > 0 {
		t.Errorf("objects were created without permission: %v", list)
	}
	s.Apply(t, fmt.Sprintf(roleIn, prod))
	s.AwaitReady(t, s.Kind("Site"), prod, "x")
	mayNotListSecrets(t, s, "kube-system")
}

// TestChildrenInNamespacesWithoutPermissionAreNotGone takes the permissions in one namespace away
// while an instance has a child there: it is deleted neither for the instance nor without it.
func TestChildrenInNamespacesWithoutPermissionAreNotGone(t *testing.T) {
	s := suite.New(t)
	shared, next := otherNamespace(t, s, "shared"), otherNamespace(t, s, "next")
	s.Apply(t, account+"---"+fmt.Sprintf(roleIn, s.NS)+"---"+fmt.Sprintf(roleIn, shared)+"---"+siteGroup)
	s.Await(t, suite.RG, s.NS, "site", suite.HasCondition("ControllerReady", "True", "Running"))
	s.Apply(t, fmt.Sprintf(site, "x", s.NS, "one", shared))
	s.AwaitReady(t, s.Kind("Site"), s.NS, "x")
	if s.Get(t, secretKind, shared, "x-key") == nil {
		t.Fatal("the child is not in the namespace that the instance names")
	}

	t.Log("It moves to a namespace where the account has no permission, and then has one.")
	s.Apply(t, fmt.Sprintf(site, "x", s.NS, "one", next))
	s.Await(t, s.Kind("Site"), s.NS, "x", func(o *unstructured.Unstructured) error {
		if got := testkit.JSON(o); !strings.Contains(got, `in the namespace \"`+next+`\"`) {
			return errors.New("it does not name the namespace: " + got)
		}
		return nil
	})
	if s.Get(t, secretKind, shared, "x-key") == nil {
		t.Error("the child is pruned before the next one is there")
	}
	s.Apply(t, fmt.Sprintf(roleIn, next))
	s.AwaitGone(t, secretKind, shared, "x-key")
	s.AwaitReady(t, s.Kind("Site"), s.NS, "x")

	t.Log("It is deleted while the account has no permission there.")
	s.Delete(t, roleBinding, next, "site")
	as := rest.CopyConfig(s.Config)
	as.Impersonate.UserName = "system:serviceaccount:" + s.NS + ":espalier"
	testkit.Poll(t, "the API server forbids", func() bool {
		_, err := testkit.NewCluster(t, as).Resource(t, secretKind, next).List(t.Context(), metav1.ListOptions{})
		return apierrors.IsForbidden(err)
	})
	s.Delete(t, s.Kind("Site"), s.NS, "x")
	s.Await(t, s.Kind("Site"), s.NS, "x", func(o *unstructured.Unstructured) error {
		// The watch may be open still.
		if got := testkit.JSON(o); !strings.Contains(got, `in the namespace \"`+next+`\"`) && !strings.Contains(got, next+"/x-key: Forbidden") {
			return errors.New("its deletion does not say what is forbidden: " + got)
		}
		return nil
	})
	if s.Get(t, secretKind, next, "x-key") == nil {
		t.Error("the child is gone")
	}
	s.Apply(t, fmt.Sprintf(roleIn, next))
	s.AwaitGone(t, s.Kind("Site"), s.NS, "x")
	s.AwaitGone(t, secretKind, next, "x-key")
}

// TestANamespaceIsDeletedWithTheRolesOfItsAccount deletes a namespace with an instance, the account and
// its only role, in no order. A child in another namespace is deleted first.
func TestANamespaceIsDeletedWithTheRolesOfItsAccount(t *testing.T) {
	s := suite.New(t)
	shared := otherNamespace(t, s, "shared")
	s.Apply(t, account+"---"+fmt.Sprintf(roleIn, s.NS)+"---"+fmt.Sprintf(roleIn, shared)+"---"+siteGroup)
	s.Await(t, suite.RG, s.NS, "site", suite.HasCondition("ControllerReady", "True", "Running"))
	s.Apply(t, fmt.Sprintf(site, "x", s.NS, "one", "")+"---\n"+fmt.Sprintf(site, "z", s.NS, "one", shared))
	s.AwaitReady(t, s.Kind("Site"), s.NS, "x")
	s.AwaitReady(t, s.Kind("Site"), s.NS, "z")
	s.Delete(t, namespaceKind, "", s.NS)
	s.AwaitGone(t, namespaceKind, "", s.NS)
	if s.Get(t, secretKind, shared, "z-key") != nil {
		t.Error("the child in the other namespace is left behind")
	}
}
