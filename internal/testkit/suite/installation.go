package suite

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	rbacclient "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// InstallationVariable names a file with what 'espalier install' prints. If it is set, the controllers
// of a package's tests run as the service account in it, with its roles and no other permissions
// than an administrator grants for each definition. Packages whose controllers run as a user of their own
// are left out.
const InstallationVariable = "ESPALIER_TEST_INSTALLATION"

// install applies the roles and policies of an installation, and grants its service account what
// its options need on top, as an administrator does with 'espalier rbac --controllers'. It returns
// the configuration and the namespace of the service account.
func install(t *testing.T, config *rest.Config, file string, o server.Options) (as *rest.Config, namespace string, err error) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	cluster := testkit.NewCluster(t, config)
	var account rbacv1.Subject
	for _, o := range testkit.Parse(t, string(text)) {
		kinds := []string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ValidatingAdmissionPolicy",
			"ValidatingAdmissionPolicyBinding"}
		if !slices.Contains(kinds, o.GetKind()) {
			continue
		}
		if _, err := cluster.TryApply(t, o); err != nil {
			return nil, "", fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if o.GetKind() == "ClusterRoleBinding" && o.GetName() == rbac.ControllersRole {
			var binding rbacv1.ClusterRoleBinding
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &binding); err != nil {
				return nil, "", err
			}
			account = binding.Subjects[0]
		}
	}
	permissions, err := optionalPermissions(o)
	if err != nil {
		return nil, "", err
	}
	for _, role := range (rbac.Grant{Name: "installation:options", Permissions: permissions, Subjects: []rbacv1.Subject{account}}).Objects() {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(role)
		if err != nil {
			return nil, "", err
		}
		if _, err := cluster.TryApply(t, &unstructured.Unstructured{Object: content}); err != nil {
			return nil, "", err
		}
	}
	token, err := kubernetes.NewForConfigOrDie(config).CoreV1().ServiceAccounts(account.Namespace).CreateToken(t.Context(), account.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return nil, "", err
	}
	as = rest.AnonymousClientConfig(config)
	as.BearerToken, as.QPS = token.Status.Token, -1
	return as, account.Namespace, nil
}

// optionalPermissions are what the controllers need for Graphs, and for providers that run inside.
func optionalPermissions(o server.Options) ([]rbac.Permission, error) {
	all, err := server.Needs(server.ManagerOptions{Providers: o.Providers, Settings: server.Settings{Graphs: o.Graphs}})
	if err != nil {
		return nil, err
	}
	without, err := server.Needs(server.ManagerOptions{})
	return slices.DeleteFunc(all, func(p rbac.Permission) bool { return slices.Contains(without, p) }), err
}

// administrator grants the controllers what each definition needs of them, as an administrator does
// with 'espalier rbac': listing its kind, and impersonating its service account. What the account
// itself needs is granted by tests, and so is what composites consist of beyond ConfigMaps and Secrets, by
// ClusterRoles with the label for that.
type administrator struct {
	client  dynamic.Interface
	roles   rbacclient.ClusterRoleInterface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
	to      []rbacv1.Subject
	granted map[string]string // by definition, the generation that it was granted for
	// needs are the permissions for all generations of a definition: revisions keep their accounts.
	needs map[string][]rbac.Permission
}

func newAdministrator(config, as *rest.Config) *administrator {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // it lists often
	username := kubernetes.NewForConfigOrDie(as).AuthenticationV1().SelfSubjectReviews()
	review, err := username.Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		panic(err) // the token is new
	}
	return &administrator{
		client:  dynamic.NewForConfigOrDie(config),
		roles:   kubernetes.NewForConfigOrDie(config).RbacV1().ClusterRoles(),
		mapper:  restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery.NewDiscoveryClientForConfigOrDie(config))),
		to:      []rbacv1.Subject{rbac.UserSubject(review.Status.UserInfo.Username)},
		granted: map[string]string{}, needs: map[string][]rbac.Permission{},
	}
}

// grant grants what is missing now. A conflict is retried in the next turn.
func (a *administrator) grant(ctx context.Context) {
	for _, resource := range []string{"resourcegraphdefinitions", "resourcegroups"} {
		a.each(ctx, v1alpha1.GroupVersion.WithResource(resource), a.graph)
	}
	a.each(ctx, schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v1", Resource: "compositeresourcedefinitions"},
		func(o *unstructured.Unstructured) ([]rbac.Permission, bool) {
			return a.composite(ctx, o)
		})
	for _, resource := range []string{"usages", "clusterusages"} {
		a.each(ctx, schema.GroupVersionResource{Group: "protection.crossplane.io", Version: "v1beta1", Resource: resource}, a.usage)
	}
	a.each(ctx, schema.GroupVersionResource{Group: "apiextensions.crossplane.io", Version: "v1alpha1", Resource: "usages"}, a.usage)
}

// run grants until the context ends.
func (a *administrator) run(ctx context.Context) {
	for {
		a.grant(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// awaitGranted waits until everything that was granted is allowed.
func (a *administrator) awaitGranted(t *testing.T, as *rest.Config) {
	t.Helper()
	for _, permissions := range a.needs {
		for _, p := range permissions {
			awaitAllowed(t, as, authorizationv1.ResourceAttributes{Verb: p.Verb, Group: p.Group, Resource: p.Resource, Name: p.Name, Namespace: p.Namespace})
		}
	}
	for _, group := range composed(t.Context(), a.roles) {
		awaitAllowed(t, as, composing(group))
	}
}

// composing is one of the permissions of ComposingRole.
func composing(group string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Verb: "list", Group: group, Resource: "any"}
}

// awaitAllowed waits until the API server's authorizer allows the controllers something: it learns of new roles a moment
// after they are written.
func awaitAllowed(t *testing.T, as *rest.Config, what authorizationv1.ResourceAttributes) {
	t.Helper()
	what.Resource, what.Subresource, _ = strings.Cut(what.Resource, "/")
	reviews := kubernetes.NewForConfigOrDie(as).AuthorizationV1().SelfSubjectAccessReviews()
	testkit.Poll(t, fmt.Sprintf("the permission of the controllers to %s %s in the API group %q", what.Verb, what.Resource, what.Group), func() bool {
		review, err := reviews.Create(t.Context(),
			&authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed
	})
}

func (a *administrator) each(ctx context.Context, resource schema.GroupVersionResource,
	needs func(*unstructured.Unstructured) (permissions []rbac.Permission, complete bool)) {
	list, err := a.client.Resource(resource).List(ctx, metav1.ListOptions{})
	if err != nil {
		return // it is not served yet
	}
	for i := range list.Items {
		o := &list.Items[i]
		id, state := string(o.GetUID()), fmt.Sprint(o.GetGeneration())
		if a.granted[id] == state {
			continue
		}
		permissions, complete := needs(o)
		a.needs[id] = rbac.Distinct(append(a.needs[id], permissions...))
		name := strings.ReplaceAll("installation:"+o.GetNamespace()+":"+o.GetName(), "::", ":")
		ok := true
		for _, role := range (rbac.Grant{Name: name, Permissions: a.needs[id], Subjects: a.to}).Objects() {
			ok = a.apply(ctx, role) == nil && ok
		}
		if ok && complete {
			a.granted[id] = state
		}
	}
}

// graph returns what the controllers need for a graph definition; complete is false while some of its
// kinds are not served.
func (a *administrator) graph(o *unstructured.Unstructured) (permissions []rbac.Permission, complete bool) {
	var d v1alpha1.ResourceGraphDefinition
	if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d) != nil || d.Spec.Schema == nil {
		return nil, true
	}
	scope := graph.Scope{Namespace: d.Namespace}
	needs := graph.RequiredPermissions(&d.Spec, scope, func(gvk schema.GroupVersionKind) (graph.Served, bool) {
		if gvk == d.Spec.Schema.InstanceKind() {
			resource, _, _ := strings.Cut(kind.NameOf(d.Spec.Schema), ".")
			return graph.Served{Resource: resource}, true
		}
		mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			a.mapper.Reset()
			return graph.Served{}, false
		}
		return graph.Served{Resource: mapping.Resource.Resource, ClusterScoped: mapping.Scope.Name() == meta.RESTScopeNameRoot}, true
	})
	account := d.Spec.ServiceAccount
	if account == nil && d.Namespace != "" {
		account = &v1alpha1.ServiceAccount{Name: rbac.DefaultServiceAccount}
	}
	if account == nil {
		return append(needs.Controllers, needs.Instances...), len(needs.UnresolvedKinds) == 0
	}
	return append(needs.Controllers, rbac.Impersonate(cmp.Or(account.Namespace, d.Namespace), account.Name)...), true
}

// usage returns what the controllers need for the objects of a usage.
func (a *administrator) usage(o *unstructured.Unstructured) (permissions []rbac.Permission, complete bool) {
	for _, party := range []string{"of", "by"} {
		apiVersion, _, _ := unstructured.NestedString(o.Object, "spec", party, "apiVersion")
		kind, named, _ := unstructured.NestedString(o.Object, "spec", party, "kind")
		gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
		mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		switch {
		case !named:
		case err != nil:
			a.mapper.Reset()
			return permissions, false
		default:
			permissions = append(permissions, rbac.PermissionsFor(gvk.Group, mapping.Resource.Resource, "get", "list", "patch", "watch")...)
		}
	}
	return permissions, true
}

// composite returns what the controllers need for composites and their claims. Tests compose
// ConfigMaps; claims have connection details in Secrets. The kinds that the definition has are granted
// too: a test may have removed one from it again before the administrator saw it.
func (a *administrator) composite(ctx context.Context, o *unstructured.Unstructured) (permissions []rbac.Permission, complete bool) {
	group, _, _ := unstructured.NestedString(o.Object, "spec", "group")
	plurals := map[string]bool{}
	for _, names := range []string{"names", "claimNames"} {
		plural, _, _ := unstructured.NestedString(o.Object, "spec", names, "plural")
		plurals[plural] = true
	}
	crds, err := a.client.Resource(CRD.GroupVersion().WithResource("customresourcedefinitions")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, false
	}
	for i := range crds.Items {
		if metav1.IsControlledBy(&crds.Items[i], o) {
			plural, _, _ := unstructured.NestedString(crds.Items[i].Object, "spec", "names", "plural")
			plurals[plural] = true
		}
	}
	delete(plurals, "")
	verbs := []string{"create", "delete", "get", "list", "patch", "update", "watch"}
	permissions = append(rbac.PermissionsFor("", "configmaps", verbs...), rbac.PermissionsFor("", "secrets", verbs...)...)
	for _, plural := range slices.Sorted(maps.Keys(plurals)) {
		permissions = append(permissions, rbac.PermissionsFor(group, plural, verbs...)...)
		permissions = append(permissions, rbac.PermissionsFor(group, plural+"/status", "update", "patch")...)
		permissions = append(permissions, rbac.PermissionsFor(group, plural+"/finalizers", "update")...)
	}
	return permissions, true
}

// apply applies a role or a binding.
func (a *administrator) apply(ctx context.Context, role any) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(role)
	if err != nil {
		return err
	}
	o := &unstructured.Unstructured{Object: content}
	resource := rbacv1.SchemeGroupVersion.WithResource(strings.ToLower(o.GetKind()) + "s")
	_, err = a.client.Resource(resource).Namespace(o.GetNamespace()).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "administrator", Force: true})
	return err
}
