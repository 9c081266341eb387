// Package permissions tests by whose rights instances are looked after, on a real API server
// that grants them.
package permissions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/cmd/espalier/cli"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func TestMain(m *testing.M) { os.Exit(suite.Main(m, server.Options{}, nil)) }

// definition composes two kinds, and reads one object by its name and others by their
// labels.
const definition = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: builder, namespace: $NS}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-site}
spec:
  serviceAccount: {namespace: $NS, name: builder}
  schema:
    apiVersion: v1alpha1
    kind: Site
    group: $GROUP
    spec: {text: string}
    status: {notes: "${size(notes)}"}
  resources:
    - id: settings
      externalRef: {apiVersion: v1, kind: Secret, metadata: {name: settings, namespace: $NS}}
    - id: notes
      externalRef: {apiVersion: v1, kind: Event, metadata: {selector: {matchLabels: {$ID-of: site}}}}
    - id: page
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-page"}, data: {text: "${schema.spec.text}", from: "${settings.metadata.name}"}}
    - id: account
      template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: "${schema.metadata.name}-${page.data.from}"}}
`

const instance = `
apiVersion: $GROUP/v1alpha1
kind: Site
metadata: {name: x, namespace: $NS}
spec: {text: %s}
`

// ofInstancesOnly are the permissions to read and write instances, but not their children.
const ofInstancesOnly = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-instances}
rules: [{apiGroups: [$GROUP], resources: [sites, sites/status], verbs: [get, list, patch, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-instances}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: $ID-instances}
subjects: [{kind: ServiceAccount, namespace: $NS, name: builder}]
`

// TestInstancesAreReconciledWithThePermissionsOfAServiceAccount begins without permissions,
// expects a report of those that are missing, grants the printed roles, and creates, changes and
// deletes an instance with them.
func TestInstancesAreReconciledWithThePermissionsOfAServiceAccount(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: settings, namespace: $NS}\n")
	s.Apply(t, definition)
	s.AwaitDefinitions(t, "site")
	s.Await(t, suite.RGD, "", s.Name("site"), lacking(
		"system:serviceaccount:"+s.NS+":builder", "create, delete, get, list, patch and watch configmaps;", "list and watch secrets named settings",
		"list and watch events;", "update sites."+s.Group+"/status", "espalier rbac "+s.Name("site")))

	s.Apply(t, fmt.Sprintf(instance, "one"))
	s.Apply(t, ofInstancesOnly)
	s.Await(t, s.Kind("Site"), s.NS, "x", forbidden)
	if list := s.List(t, suite.ConfigMap, s.NS, "kro.run/owned"); len(list) > 0 {
		t.Errorf("its page was created without the permissions of the account: %v", list)
	}

	s.Apply(t, printed(t, s, s.Name("site")))
	s.Await(t, suite.RGD, "", s.Name("site"), granted())
	s.AwaitReady(t, s.Kind("Site"), s.NS, "x")
	s.Await(t, suite.ConfigMap, s.NS, "x-page", text("one"))

	s.Apply(t, fmt.Sprintf(instance, "two"))
	s.Await(t, suite.ConfigMap, s.NS, "x-page", text("two"))
	s.Patch(t, suite.ConfigMap, s.NS, "x-page", `{"data": {"text": "drifted"}}`)
	s.Await(t, suite.ConfigMap, s.NS, "x-page", text("two"))
	s.Delete(t, s.Kind("Site"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Site"), s.NS, "x")
	s.AwaitGone(t, suite.ConfigMap, s.NS, "x-page")
}

// TestRevokedPermissionsAreReported revokes what was granted. Then it removes the service account
// from the definition, so that the controllers use their own permissions.
func TestRevokedPermissionsAreReported(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: settings, namespace: $NS}\n")
	s.Apply(t, definition)
	s.AwaitDefinitions(t, "site")
	s.Apply(t, printed(t, s, s.Name("site")))
	s.Apply(t, fmt.Sprintf(instance, "one"))
	s.AwaitReady(t, s.Kind("Site"), s.NS, "x")

	s.Apply(t, ofInstancesOnly)
	binding := schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"}
	s.Delete(t, binding, "", "espalier:"+s.Name("site"))
	as := rest.CopyConfig(s.Config)
	as.Impersonate.UserName = "system:serviceaccount:" + s.NS + ":builder"
	testkit.Poll(t, "the API server forbids", func() bool {
		_, err := testkit.NewCluster(t, as).Resource(t, suite.ConfigMap, s.NS).List(t.Context(), metav1.ListOptions{})
		return apierrors.IsForbidden(err)
	})
	s.Apply(t, fmt.Sprintf(instance, "two"))
	s.Await(t, s.Kind("Site"), s.NS, "x", forbidden)
	if got := s.Get(t, suite.ConfigMap, s.NS, "x-page"); text("one")(got) != nil {
		t.Errorf("somebody has written to it: %s", testkit.JSON(got))
	}

	s.Apply(t, strings.Replace(definition, "serviceAccount: {namespace: $NS, name: builder}", "", 1))
	s.Await(t, suite.ConfigMap, s.NS, "x-page", text("two"))
	s.Await(t, suite.RGD, "", s.Name("site"), granted())
	s.Delete(t, s.Kind("Site"), s.NS, "x")
	s.AwaitGone(t, s.Kind("Site"), s.NS, "x")
}

// TestAResourceGroupCannotUseServiceAccountsOfOtherNamespaces names a service account of another
// namespace.
func TestAResourceGroupCannotUseServiceAccountsOfOtherNamespaces(t *testing.T) {
	s := suite.New(t)
	const group = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: builder, namespace: $NS}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGroup
metadata: {name: site, namespace: $NS}
spec:
  serviceAccount: {name: builder%s}
  schema: {apiVersion: v1alpha1, kind: Site, group: $GROUP}
  resources: [{id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: page}}%s}]
`
	s.Apply(t, fmt.Sprintf(group, ", namespace: kube-system", ", includeWhen: [oops]"))
	s.Await(t, suite.RG, s.NS, "site", func(o *unstructured.Unstructured) error {
		if got := testkit.ConditionMessage(o, "GraphAccepted"); !strings.Contains(got, "spec.serviceAccount") || !strings.Contains(got, "can only use service accounts of that namespace") || !strings.Contains(got, "spec.resources[0].includeWhen[0]: ") {
			return errors.New("it says " + got)
		}
		return nil
	})
	s.Apply(t, fmt.Sprintf(group, "", ""))
	s.AwaitReady(t, suite.RG, s.NS, "site")
	s.Await(t, suite.RG, s.NS, "site", lacking("'espalier rbac site --namespace "+s.NS+"'"))
}

// lacking checks that the condition names what is missing. In an installation, the permission to act as
// the account may be missing for a moment before, and nothing else is known until then.
func lacking(words ...string) suite.Check {
	return suite.HasCondition("PermissionsGranted", "False", "Forbidden", words...)
}

// granted checks that the condition says that nothing is missing.
func granted() suite.Check {
	return suite.HasCondition("PermissionsGranted", "True", "Granted")
}

// forbidden checks that an instance reports a forbidden request.
func forbidden(o *unstructured.Unstructured) error {
	if got := testkit.ConditionMessage(o, "Ready"); !strings.Contains(got, "forbidden") {
		return errors.New("it says " + got)
	}
	return nil
}

func text(want string) func(*unstructured.Unstructured) error {
	return func(o *unstructured.Unstructured) error {
		if got, _, _ := unstructured.NestedString(o.Object, "data", "text"); got != want {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	}
}

// printed is what espalier rbac prints of a definition.
func printed(t *testing.T, s suite.Suite, name string, flags ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	args := append([]string{"rbac", name, "--serviceaccount", s.NS + ":controllers", "--kubeconfig", testkit.Kubeconfig(t, s.Config)}, flags...)
	if code := cli.Main(context.Background(), args, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	return out.String()
}

// TestPermissionsAreReviewedForServedKinds pins a definition to a revision that needs more than what
// the definition is by now.
func TestPermissionsAreReviewedForServedKinds(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: settings, namespace: $NS}\n")
	s.Apply(t, definition)
	s.AwaitDefinitions(t, "site")
	told := func(lack string) {
		t.Helper()
		s.Await(t, suite.RGD, "", s.Name("site"), func(o *unstructured.Unstructured) error {
			if got := testkit.ConditionMessage(o, "PermissionsGranted"); !strings.Contains(got, lack) {
				return fmt.Errorf("it doesn't tell of %s: %s", lack, got)
			}
			return nil
		})
	}
	told("serviceaccounts")
	less, _, _ := strings.Cut(definition, "    - id: account\n")
	s.Apply(t, strings.Replace(less, "spec:\n", "spec:\n  revision: 1\n", 1))
	s.Await(t, suite.RGD, "", s.Name("site"), func(o *unstructured.Unstructured) error {
		if n, _, _ := unstructured.NestedInt64(o.Object, "status", "lastIssuedRevision"); n != 2 {
			return fmt.Errorf("revision %d is the last", n)
		}
		return nil
	})
	told("serviceaccounts")
	s.Apply(t, less) // nobody requests the first any more
	s.Await(t, suite.RGD, "", s.Name("site"), func(o *unstructured.Unstructured) error {
		if got := testkit.ConditionMessage(o, "PermissionsGranted"); strings.Contains(got, "serviceaccounts") {
			return errors.New("it tells of what nothing needs: " + got)
		}
		return nil
	})
}

// TestRolesInNamespacesSufficeForAResourceGroup applies what is printed for a ResourceGroup with
// instances in two namespaces: the service account gets no ClusterRole.
func TestRolesInNamespacesSufficeForAResourceGroup(t *testing.T) {
	s := suite.New(t)
	s.Apply(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: espalier, namespace: $NS}
---
apiVersion: v1
kind: Namespace
metadata: {name: $ID-prod}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGroup
metadata: {name: site, namespace: $NS}
spec:
  schema: {apiVersion: v1alpha1, kind: Site, group: $GROUP, spec: {text: string}}
  resources:
    - {id: settings, externalRef: {apiVersion: v1, kind: Secret, metadata: {name: settings, namespace: $NS}}}
    - {id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-page", namespace: "${schema.metadata.namespace}"}, data: {text: "${schema.spec.text}", from: "${settings.metadata.name}"}}}
---
apiVersion: v1
kind: Secret
metadata: {name: settings, namespace: $NS}
`)
	prod := s.Name("prod")
	s.Await(t, suite.RG, s.NS, "site", lacking("create, delete, get, list, patch and watch configmaps in namespace "+s.NS+";",
		"list and watch secrets named settings in namespace "+s.NS, "espalier rbac site --namespace "+s.NS))
	for _, namespace := range []string{s.NS, prod} {
		s.Apply(t, "apiVersion: $GROUP/v1alpha1\nkind: Site\nmetadata: {name: x, namespace: "+namespace+"}\nspec: {text: one}\n")
	}
	text := printed(t, s, "site", "--namespace", s.NS)
	for _, o := range testkit.Parse(t, text) {
		if o.GetKind() == "ClusterRoleBinding" && strings.Contains(testkit.JSON(o), `"name":"espalier"`) {
			t.Errorf("the account gets a ClusterRole: %s", testkit.JSON(o))
		}
	}
	s.Apply(t, text)
	s.Await(t, suite.RG, s.NS, "site", granted())
	s.AwaitReady(t, s.Kind("Site"), s.NS, "x")
	if s.Get(t, suite.ConfigMap, prod, "x-page") != nil {
		t.Error("the account writes where it has no role")
	}
	s.Apply(t, printed(t, s, "site", "--namespace", s.NS, "--instance-namespace", prod))
	s.AwaitReady(t, s.Kind("Site"), prod, "x")
	s.Delete(t, s.Kind("Site"), prod, "x")
	s.AwaitGone(t, s.Kind("Site"), prod, "x")
	s.AwaitGone(t, suite.ConfigMap, prod, "x-page")
}
