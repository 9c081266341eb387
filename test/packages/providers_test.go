package packages

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/packages/controller"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	functions "github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var (
	providerKind         = v1.GroupVersion.WithKind(v1.ProviderKind)
	providerRevisionKind = v1.GroupVersion.WithKind(v1.ProviderRevisionKind)
	clusterRoleKind      = rbacv1.SchemeGroupVersion.WithKind("ClusterRole")
	crdKind              = apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	webhookKind          = schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"}
	managedKind          = controller.ManagedKind
	policyKind           = controller.PolicyKind
)

// asAccount returns a connection as a ServiceAccount of the namespace, which is created, with permissions.
func (w *world) asAccount(t *testing.T, name string, permissions []rbac.Permission) *rest.Config {
	t.Helper()
	w.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: ServiceAccount, metadata: {name: %s, namespace: %s}}", name, w.namespace))
	account := rbac.ServiceAccount(w.namespace, name)
	objects := rbac.Grant{Name: w.namespace + "-" + name, Permissions: permissions, Subjects: []rbacv1.Subject{account}}.Objects()
	for _, o := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err == nil {
			_, err = w.TryApply(t, &unstructured.Unstructured{Object: content})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return w.withToken(t, name)
}

func (w *world) withToken(t *testing.T, account string) *rest.Config {
	t.Helper()
	token, err := kubernetes.NewForConfigOrDie(w.config).CoreV1().ServiceAccounts(w.namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(w.config)
	config.BearerToken, config.QPS = token.Status.Token, -1
	return config
}

// needs are the permissions of controllers that install packages.
func (w *world) needs(t *testing.T) []rbac.Permission {
	t.Helper()
	all, err := server.Needs(server.ManagerOptions{
		Options: manager.Options{LeaderElectionNamespace: w.namespace}, Packages: &server.PackageOptions{Namespace: w.namespace, ProviderPermissions: w.permissions},
		Functions: functions.Options{CertificatesSecret: functions.SecretName{Namespace: w.namespace, Name: controller.ClientSecret}},
	})
	if err != nil {
		t.Fatal(err)
	}
	key := rbac.Object{Name: v1alpha1.SigningKeySecret} // wherever the test before has created it
	return append(append(all, key.Permissions("", "secrets", "get")...), rbac.PermissionsFor("", "secrets", "create")...)
}

func isServed(o *unstructured.Unstructured) error {
	return suite.All(suite.IsPresent, suite.HasField(true, "status", "ready"))(o)
}

// TestAProviderMayDoWhatTheAdministratorAllows: the controllers have exactly the permissions that they print, so the API server
// refuses whatever goes beyond.
func TestAProviderMayDoWhatTheAdministratorAllows(t *testing.T) {
	const group = "allowed.providers.example.org"
	w := newWorld(t)
	w.permissions = []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{"*"}, Verbs: []string{"*"}}, {APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}}
	w.push(t, "org/provider-allowed:v1.0.0", serving(t, "things."+group), w.meta("Provider", "provider-allowed"), customResource(group, "Thing"), admission(group))
	w.start(t, w.asAccount(t, "controllers", w.needs(t)))
	w.install(t, "Provider", "allowed", "org/provider-allowed:v1.0.0")
	w.Await(t, providerKind, "", "allowed", suite.All(healthy, hasConditions("Healthy", "True", "its ServiceAccount lacks what packages.providerPermissions does not allow: create, delete")))
	w.Apply(t, "{apiVersion: "+group+"/v1, kind: Thing, metadata: {name: thing}}")
	w.Await(t, schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}, "", "thing", isServed)

	revision := w.List(t, providerRevisionKind, "", "pkg.crossplane.io/package=allowed")[0].GetName()
	roles, versions := w.roles(t, revision)
	rule := func(resource, verbs string) string { return group + "/" + resource + ": " + verbs }
	all := "[create delete deletecollection get list patch update watch]"
	want := map[string][]string{
		"aggregate-to-edit": {rule("things", all), rule("things/status", "[get patch update]")},
		"aggregate-to-view": {rule("things", "[get list watch]"), rule("things/status", "[get]")},
		"system":            {"/secrets: [get]", rule("things", "[create get list patch update watch]"), rule("things/finalizers", "[update]"), rule("things/status", "[get patch update]")},
	}
	for _, rules := range want {
		slices.Sort(rules)
	}
	if diff := cmp.Diff(want, roles); diff != "" {
		t.Errorf("the roles (-want +got):\n%s", diff)
	}

	as := dynamic.NewForConfigOrDie(w.withToken(t, revision))
	things := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}
	secrets := schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	if _, err := as.Resource(things).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("it cannot list its own kind: %v", err)
	}
	if _, err := as.Resource(secrets).Namespace(w.namespace).Get(t.Context(), "allowed-tls-server", metav1.GetOptions{}); err != nil {
		t.Errorf("it cannot read the Secrets that it was allowed to: %v", err)
	}
	for what, err := range map[string]error{
		"list Secrets":    listed(as.Resource(secrets).List(t.Context(), metav1.ListOptions{})),
		"list ConfigMaps": listed(as.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).List(t.Context(), metav1.ListOptions{})),
		"delete its kind": as.Resource(things).Delete(t.Context(), "thing", metav1.DeleteOptions{}),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("it may %s: %v", what, err)
		}
	}

	// Another reconcile of the revision writes no role.
	w.Patch(t, providerKind, "", "allowed", `{"spec": {"commonLabels": {"changed": "once"}}}`)
	w.Await(t, crdKind, "", "things."+group, func(o *unstructured.Unstructured) error {
		if o.GetLabels()["changed"] != "once" {
			return errors.New("it is not labelled yet")
		}
		return nil
	})
	w.Await(t, providerKind, "", "allowed", healthy)
	if _, after := w.roles(t, revision); !cmp.Equal(versions, after) {
		t.Errorf("unchanged roles were written: %s", cmp.Diff(versions, after))
	}
	w.deleteInUse(t, "allowed")
	w.AwaitGone(t, clusterRoleKind, "", "crossplane:provider:"+revision+":system")
}

// deleteInUse deletes a provider without waiting for its instances: the controllers have no permission to list them here.
func (w *world) deleteInUse(t *testing.T, provider string) {
	t.Helper()
	w.Patch(t, providerKind, "", provider, `{"metadata": {"annotations": {"espalier.dev/delete-in-use": "true"}}}`)
	w.Delete(t, providerKind, "", provider)
}

// TestAFamilySharesItsKinds as long as its members are installed.
func TestAFamilySharesItsKinds(t *testing.T) {
	const group = "family.providers.example.org"
	w := newWorld(t)
	w.permissions = []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	for name, kind := range map[string]string{"provider-family": "Config", "provider-member": "Thing"} {
		meta := strings.Replace(w.meta("Provider", name), "{name: "+name+"}", "{name: "+name+", labels: {pkg.crossplane.io/provider-family: mine}}", 1)
		w.push(t, "org/"+name+":v1.0.0", serving(t, "things."+group), meta, customResource(group, kind))
	}
	w.start(t, w.asAccount(t, "controllers", w.needs(t)))
	w.install(t, "Provider", "member", "org/provider-member:v1.0.0")
	w.Await(t, providerKind, "", "member", healthy)
	role := "crossplane:provider:" + w.List(t, providerRevisionKind, "", "pkg.crossplane.io/package=member")[0].GetName() + ":system"
	names := func(resource string, wanted bool) suite.Check {
		return func(o *unstructured.Unstructured) error {
			if o == nil || strings.Contains(testkit.JSON(o), `"`+resource+`"`) != wanted {
				return fmt.Errorf("the role names %s: %t", resource, !wanted)
			}
			return nil
		}
	}
	w.Await(t, clusterRoleKind, "", role, suite.All(names("things", true), names("configs", false)))
	w.install(t, "Provider", "family", "org/provider-family:v1.0.0")
	w.Await(t, clusterRoleKind, "", role, suite.All(names("things", true), names("configs", true)))
	w.Await(t, providerKind, "", "family", healthy)
	w.Delete(t, providerKind, "", "family")
	w.Await(t, clusterRoleKind, "", role, suite.All(names("things", true), names("configs", false)))
	w.Delete(t, providerKind, "", "member")
}

// TestAPackageChangesTheFormOfItsKinds: a newer version has ManagedResourceDefinitions, which stay after a rollback. The objects
// stay.
func TestAPackageChangesTheFormOfItsKinds(t *testing.T) {
	const group = "form.providers.example.org"
	w := newWorld(t)
	w.push(t, "org/provider-form:v1.0.0", serving(t, "things."+group), w.meta("Provider", "provider-form"), customResource(group, "Thing"))
	w.push(t, "org/provider-form:v2.0.0", serving(t, "things."+group), w.meta("Provider", "provider-form"), managedResource(group, "Thing"))
	w.start(t, w.config)
	w.install(t, "Provider", "form", "org/provider-form:v1.0.0")
	w.Await(t, providerKind, "", "form", healthy)
	w.Apply(t, "{apiVersion: "+group+"/v1, kind: Thing, metadata: {name: thing}}")
	for _, step := range []struct{ version, owner string }{{"v2.0.0", "ManagedResourceDefinition"}, {"v1.0.0", "ManagedResourceDefinition"}, {"v2.0.0", "ManagedResourceDefinition"}} {
		w.install(t, "Provider", "form", "org/provider-form:"+step.version)
		w.Await(t, crdKind, "", "things."+group, func(o *unstructured.Unstructured) error {
			if owner := metav1.GetControllerOf(o); owner == nil || owner.Kind != step.owner {
				return fmt.Errorf("with %s, its controller is %v", step.version, owner)
			}
			return nil
		})
		w.Await(t, providerKind, "", "form", healthy)
	}
	if o := w.Get(t, schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}, "", "thing"); o == nil {
		t.Error("the object is gone")
	}
	w.Delete(t, providerKind, "", "form")
}

func listed(_ *unstructured.UnstructuredList, err error) error { return err }

// roles returns the rules of the roles of a revision, and their resourceVersions.
func (w *world) roles(t *testing.T, revision string) (rules map[string][]string, versions map[string]string) {
	t.Helper()
	rules, versions = map[string][]string{}, map[string]string{}
	for _, name := range []string{"aggregate-to-edit", "aggregate-to-view", "system"} {
		o := w.Get(t, clusterRoleKind, "", "crossplane:provider:"+revision+":"+name)
		var role rbacv1.ClusterRole
		if o == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role) != nil {
			t.Fatalf("there is no role %s", name)
		}
		versions[name] = role.ResourceVersion
		for _, r := range role.Rules {
			for _, resource := range r.Resources {
				rules[name] = append(rules[name], fmt.Sprintf("%s/%s: %v", r.APIGroups[0], resource, r.Verbs))
			}
		}
		slices.Sort(rules[name])
	}
	return rules, versions
}

// TestManagedResourcesAreActivated by a policy and by a definition that composes the kind; a provider that waits for them does not
// run before.
func TestManagedResourcesAreActivated(t *testing.T) {
	const group = "activated.providers.example.org"
	w := newWorld(t)
	w.permissions = []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	w.push(t, "org/provider-activated:v1.0.0", serving(t, "things."+group), strings.Replace(w.meta("Provider", "provider-activated"), "[]", "[SafeStart]", 1),
		customResource(group, "Thing"), managedResource(group, "Gadget"), customResource(group, "Widget"), customResource(group, "ProviderConfig"))
	w.start(t, w.asAccount(t, "controllers", w.needs(t)))
	w.install(t, "Provider", "activated", "org/provider-activated:v1.0.0")
	w.Await(t, providerKind, "", "activated", suite.All(suite.IsPresent, suite.HasCondition("Healthy", "True", "AwaitingActivation")))
	w.Await(t, managedKind, "", "things."+group, suite.HasCondition("Established", "False", "InactiveManagedResource"))
	if n := w.kubelet.running(); n != 0 {
		t.Errorf("%d pods run", n)
	}
	if o := w.Get(t, crdKind, "", "things."+group); o != nil {
		t.Error("the kind of an inactive definition exists")
	}
	w.Await(t, crdKind, "", "providerconfigs."+group, suite.HasCondition("Established", "True", ""))
	if o := w.Get(t, policyKind, "", "default"); o != nil {
		t.Error("there is a policy that nobody wants")
	}

	w.Apply(t, "{apiVersion: apiextensions.crossplane.io/v1alpha1, kind: ManagedResourceActivationPolicy, metadata: {name: activated}, spec: {activate: ['th*."+group+"', '[']}}")
	w.Await(t, managedKind, "", "things."+group, suite.HasCondition("Established", "True", "EstablishedManagedResource"))
	w.Await(t, policyKind, "", "activated", suite.All(suite.HasCondition("Healthy", "Unknown", "EncounteredErrors", `malformed patterns: "["`),
		suite.HasField([]any{"things." + group}, "status", "activated")))
	w.Await(t, providerKind, "", "activated", healthy)
	w.Apply(t, "{apiVersion: "+group+"/v1, kind: Thing, metadata: {name: thing}}")
	w.Await(t, schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Thing"}, "", "thing", isServed)
	crd := w.Get(t, crdKind, "", "things."+group)
	var owners []string
	for _, o := range crd.GetOwnerReferences() {
		owners = append(owners, o.Kind)
	}
	if !slices.Equal(owners, []string{"ManagedResourceDefinition", "ProviderRevision"}) || crd.GetLabels()["of"] != "the-package" {
		t.Errorf("the owners are %v, the labels %v", owners, crd.GetLabels())
	}

	w.Apply(t, `{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {name: activated}, spec: {compositeTypeRef: {apiVersion: none.example.org/v1, kind: None},
  mode: Pipeline, pipeline: [{step: one, functionRef: {name: x}, input: {apiVersion: x.example.org/v1, kind: Input, resources: [{base: {apiVersion: `+group+`/v1, kind: Gadget}}]}}]}}`)
	w.Await(t, managedKind, "", "gadgets."+group, suite.HasCondition("Established", "True", ""))
	w.Delete(t, policyKind, "", "activated")
	w.Delete(t, schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1", Kind: "Composition"}, "", "activated")
	w.Await(t, managedKind, "", "things."+group, suite.HasCondition("Established", "True", ""))
	w.Await(t, managedKind, "", "widgets."+group, suite.HasCondition("Established", "False", "InactiveManagedResource"))
	w.deleteInUse(t, "activated")
	w.AwaitGone(t, crdKind, "", "things."+group)
}

// TestTheFirstPolicyActivatesWhatTheInstallationSays, also kinds that existed before they had definitions.
func TestTheFirstPolicyActivatesWhatTheInstallationSays(t *testing.T) {
	const group = "first.providers.example.org"
	w := newWorld(t)
	w.activations = []string{"things.*"}
	capable := strings.Replace(w.meta("Provider", "provider-first"), "[]", "[safe-start]", 1)
	w.push(t, "org/provider-first:v1.0.0", serving(t, "things."+group), w.meta("Provider", "provider-first"), customResource(group, "Gadget"))
	w.push(t, "org/provider-first:v2.0.0", serving(t, "things."+group), capable, customResource(group, "Thing"), customResource(group, "Gadget"), customResource(group, "Widget"))
	w.start(t, w.asAccount(t, "controllers", w.needs(t)))
	w.install(t, "Provider", "first", "org/provider-first:v1.0.0")
	w.Await(t, providerKind, "", "first", healthy)
	w.Apply(t, "{apiVersion: "+group+"/v1, kind: Gadget, metadata: {name: gadget}}")
	w.install(t, "Provider", "first", "org/provider-first:v2.0.0")
	w.Await(t, managedKind, "", "things."+group, suite.HasCondition("Established", "True", ""))
	w.Await(t, policyKind, "", "default", suite.HasField([]any{"things." + group}, "status", "activated"))
	w.Await(t, managedKind, "", "gadgets."+group, suite.HasCondition("Established", "True", ""))
	w.Await(t, managedKind, "", "widgets."+group, suite.HasCondition("Established", "False", "InactiveManagedResource"))
	w.Await(t, providerKind, "", "first", healthy)
	if o := w.Get(t, schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Gadget"}, "", "gadget"); o == nil {
		t.Error("the object is gone")
	}
	w.Delete(t, policyKind, "", "default")
	w.deleteInUse(t, "first")
	w.AwaitGone(t, crdKind, "", "gadgets."+group)
	if o := w.Get(t, policyKind, "", "default"); o != nil {
		t.Error("the policy has come back")
	}
}

// TestWebhooksOfAProviderAreTrusted, also when the authority that signs certificates is replaced.
func TestWebhooksOfAProviderAreTrusted(t *testing.T) {
	const group = "webhooks.providers.example.org"
	w := newWorld(t)
	w.push(t, "org/provider-webhooks:v1.0.0", serving(t, "things."+group), w.meta("Provider", "provider-webhooks"), managedResource(group, "Thing"), admission(group))
	w.start(t, w.asAccount(t, "controllers", w.needs(t)))
	w.install(t, "Provider", "webhooks", "org/provider-webhooks:v1.0.0")
	w.Await(t, providerKind, "", "webhooks", suite.All(healthy, hasConditions("Healthy", "True", "no permissions are granted")))
	w.Await(t, managedKind, "", "things."+group, suite.HasCondition("Established", "True", "")) // without safe-start, all are active
	w.Await(t, webhookKind, "", "crossplane-provider-webhooks", w.reachesWebhook)
	before := w.Get(t, webhookKind, "", "crossplane-provider-webhooks")
	w.Delete(t, secretKind, w.namespace, controller.AuthoritySecret)
	w.Await(t, webhookKind, "", "crossplane-provider-webhooks", func(o *unstructured.Unstructured) error {
		if o == nil || bundleOf(o) == bundleOf(before) {
			return errors.New("it trusts the authority that is gone")
		}
		return nil
	})
	testkit.Poll(t, "the pods have started again", func() bool {
		return w.reachesWebhook(w.Get(t, webhookKind, "", "crossplane-provider-webhooks")) == nil
	})
	w.Delete(t, providerKind, "", "webhooks")
}

func bundleOf(o *unstructured.Unstructured) string {
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	text, _, _ := unstructured.NestedString(hooks[0].(map[string]any), "clientConfig", "caBundle")
	return text
}

// reachesWebhook connects to the webhook of a configuration as the API server would.
func (w *world) reachesWebhook(o *unstructured.Unstructured) error {
	if o == nil {
		return errors.New("it is not there")
	}
	hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	service, _, _ := unstructured.NestedMap(hooks[0].(map[string]any), "clientConfig", "service")
	if service["namespace"] != w.namespace || service["path"] != "/validate" {
		return fmt.Errorf("the Service is %v", service)
	}
	bundle, err := base64.StdEncoding.DecodeString(bundleOf(o))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	name := service["name"].(string)
	addresses := w.kubelet.resolve(name)
	if len(addresses) == 0 {
		return errors.New("no pod is ready")
	}
	c, err := tls.Dial("tcp", net.JoinHostPort(addresses[0].String(), fmt.Sprint(service["port"])), &tls.Config{RootCAs: roots, ServerName: name + "." + w.namespace + ".svc", MinVersion: tls.VersionTLS12})
	if err != nil {
		return err
	}
	return c.Close()
}

// TestProgramsRunElsewhere: whoever runs them reports that.
func TestProgramsRunElsewhere(t *testing.T) {
	const group = "external.providers.example.org"
	w := newWorld(t)
	w.external, w.permissions = []string{v1.ProviderKind}, []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{"*"}, Verbs: []string{"*"}}}
	w.push(t, "org/provider-external:v1.0.0", serving(t, "things."+group), w.meta("Provider", "provider-external"), customResource(group, "Thing"))
	w.start(t, w.config)
	w.install(t, "Provider", "external", "org/provider-external:v1.0.0")
	w.Await(t, providerKind, "", "external", suite.All(suite.IsPresent, suite.HasCondition("Installed", "True", "")))
	revision := w.List(t, providerRevisionKind, "", "pkg.crossplane.io/package=external")[0].GetName()
	w.Await(t, providerRevisionKind, "", revision, hasConditions("RevisionHealthy", "True", "", "RuntimeHealthy", "Unknown", "the program runs elsewhere"))
	w.roles(t, revision)
	if all := w.List(t, deploymentKind, w.namespace, ""); len(all) != 0 {
		t.Errorf("there are %d Deployments", len(all))
	}
	testkit.Poll(t, "the runtime reports", func() bool {
		o := w.Get(t, providerRevisionKind, "", revision)
		status, _, _ := unstructured.NestedMap(o.Object, "status")
		status["endpoint"] = "dns:///elsewhere:9443"
		conditions := slices.DeleteFunc(status["conditions"].([]any), func(c any) bool { return c.(map[string]any)["type"] == "RuntimeHealthy" })
		status["conditions"] = append(conditions, map[string]any{"type": "RuntimeHealthy", "status": "True", "reason": "HealthyPackageRevision", "lastTransitionTime": "2026-01-01T00:00:00Z"})
		o.Object["status"] = status
		_, err := w.Resource(t, providerRevisionKind, "").UpdateStatus(t.Context(), o, metav1.UpdateOptions{})
		return err == nil
	})
	w.Await(t, providerKind, "", "external", healthy)
	w.Delete(t, providerKind, "", "external")
}
