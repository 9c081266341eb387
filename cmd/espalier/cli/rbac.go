package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/naming"
)

// rbacFlags are the flags of rbac.
type rbacFlags struct {
	where       clusterFlags
	namespace   string
	files       []string
	account     string
	user        string
	controllers bool
	// instances are further namespaces with instances of a definition in a namespace.
	instances []string
	program   programFlags
	packages  packageFlags
}

func newRBAC() *cobra.Command {
	var flags rbacFlags
	cmd := &cobra.Command{
		Use:   "rbac DEFINITION | --controllers",
		Short: "Print the smallest roles that a definition's instances, or the controllers, need",
		Long: "Prints a ClusterRole with exactly the permissions that reconciling the instances of a\n" +
			"graph definition needs, and a ClusterRoleBinding to the service account that the\n" +
			"definition names (spec.serviceAccount), or else to the controllers. With a service\n" +
			"account, separate roles have the permissions that the controllers need themselves.\n" +
			"Nothing is changed.\n\n" +
			"For a ResourceGroup the service account gets Roles and RoleBindings: in the namespace of\n" +
			"the ResourceGroup, in those that its templates name, and in those of --instance-namespace.\n" +
			"A ClusterRole has only what is not in a namespace, or selected from all.\n\n" +
			"For a CompositeResourceDefinition, or for files with CompositeResourceDefinitions and\n" +
			"Compositions, it prints a ClusterRole with the permissions that the controllers need\n" +
			"for the composites, and for what the built-in functions compose. By its label, the\n" +
			"cluster aggregates it to the controllers' own role.\n\n" +
			"For a file with Graphs, it prints what their service accounts need, and that the\n" +
			"controllers can impersonate these.\n\n" +
			"For a file with Providers, it reads their packages and prints what Crossplane would grant\n" +
			"them: from these rules, choose those of packages.providerPermissions.\n\n" +
			"With --controllers it prints what the controllers need in every cluster, before there\n" +
			"is any definition. --serviceaccount or --user names the account of the controllers; for\n" +
			"a definition it is otherwise read from the ClusterRoleBinding " + rbac.ControllersRole + ".\n\n" +
			"A template that grants permissions, such as a RoleBinding, needs more: Kubernetes lets\n" +
			"no account grant permissions that it does not have. Objects that a Usage protects need\n" +
			"more as well.",
		Example: "  espalier rbac --controllers --serviceaccount espalier-system:espalier-controllers | kubectl apply -f -\n" +
			"  espalier rbac webapps | kubectl apply -f -\n" +
			"  espalier rbac xdatabases.example.org | kubectl apply -f -\n" +
			"  espalier rbac -f definition.yaml\n" +
			"  espalier rbac -f provider.yaml --namespace espalier-system",
		RunE: func(cmd *cobra.Command, args []string) error { return printRBAC(cmd, flags, args) },
	}
	flags.where.add(cmd)
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", "", "namespace of a ResourceGroup, or of what runs of packages")
	cmd.Flags().StringSliceVarP(&flags.files, "filename", "f", nil,
		"file or directory with the definition, instead of the cluster; - for the standard input; repeatable")
	cmd.Flags().StringSliceVar(&flags.instances, "instance-namespace", nil, "another namespace with instances of a ResourceGroup; repeatable")
	cmd.Flags().StringVar(&flags.account, "serviceaccount", "", "service account of the controllers: NAMESPACE:NAME")
	cmd.Flags().StringVar(&flags.user, "user", "", "user of the controllers, if it is not a service account")
	cmd.Flags().BoolVar(&flags.controllers, "controllers", false, "print what the controllers need in every cluster")
	flags.program.add(cmd)
	cmd.Flags().StringVar(&flags.packages.cacheDir, "cache-dir", "", "folder of the cache of packages; below the user's by default")
	flags.packages.registry.add(cmd)
	_ = cmd.MarkFlagDirname("cache-dir")
	return cmd
}

func printRBAC(cmd *cobra.Command, flags rbacFlags, args []string) error {
	if flags.controllers && len(flags.files)+len(args) > 0 {
		return &usageError{errors.New("rbac --controllers takes no definition")}
	}
	if !flags.controllers && ((len(flags.files) == 0) != (len(args) == 1) || len(args) > 1) {
		return &usageError{errors.New("rbac takes the name of a definition, or --filename, or --controllers")}
	}
	controllers, err := flags.subjects()
	if err != nil {
		return &usageError{err}
	}
	var objects []any
	if flags.controllers {
		noteUnbound(cmd, controllers)
		objects, err = flags.program.role(cmd, controllers)
	} else {
		objects, err = definitionRoles(cmd, flags, controllers, args)
	}
	if err != nil {
		return err
	}
	for i, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("encode a role: %w", err)
		}
		separator := map[bool]string{true: "---\n"}[i > 0]
		fmt.Fprint(cmd.OutOrStdout(), separator, string(text))
	}
	return nil
}

// noteUnbound prints that there is no binding for controllers without a known account.
func noteUnbound(cmd *cobra.Command, controllers []rbacv1.Subject) {
	if len(controllers) == 0 {
		fmt.Fprintln(prose(cmd.ErrOrStderr()), "espalier: printed no binding for the controllers, because their account is unknown; set --serviceaccount NAMESPACE:NAME or --user NAME")
	}
}

// subjects returns the subject that the controllers run as, if the flags name one.
func (f rbacFlags) subjects() ([]rbacv1.Subject, error) {
	switch {
	case f.account != "" && f.user != "":
		return nil, errors.New("--serviceaccount and --user exclude each other")
	case f.user != "":
		return []rbacv1.Subject{rbac.UserSubject(f.user)}, nil
	case f.account != "":
		account, err := rbac.ParseServiceAccount(f.account)
		if err != nil {
			return nil, fmt.Errorf("--serviceaccount %w, not %s", err, f.account)
		}
		return []rbacv1.Subject{account}, nil
	}
	return nil, nil
}

// definitionRoles returns the roles for a definition. It prints the kinds that are not served, and reads the subjects of the
// controllers from the cluster unless they are given.
func definitionRoles(cmd *cobra.Command, flags rbacFlags, controllers []rbacv1.Subject, args []string) ([]any, error) {
	var files []*workspace.File
	if len(flags.files) > 0 {
		var err error
		if files, err = readFiles(cmd, flags.files); err != nil {
			return nil, err
		}
		if providers := providersIn(files); len(providers) > 0 {
			return providerRoles(cmd, flags, providers)
		}
		graphs, err := graphsIn(files)
		if err != nil {
			return nil, err
		}
		if len(graphs) > 0 {
			return graphRoles(cmd, flags, controllers, graphs)
		}
	}
	config, err := flags.where.config()
	if err != nil {
		return nil, err
	}
	cluster, err := reader.New(config)
	if err != nil {
		return nil, err
	}
	d, composed, err := namedDefinition(cmd, flags, files, cluster, args)
	if err != nil {
		return nil, err
	}
	if composed != nil {
		role, notes, err := composed.role(func(gvk schema.GroupVersionKind) (string, error) {
			mapping, err := cluster.Kinds.RESTMapping(gvk.GroupKind(), gvk.Version)
			if err != nil {
				return "", err
			}
			return mapping.Resource.Resource, nil
		})
		for _, note := range notes {
			fmt.Fprintf(prose(cmd.ErrOrStderr()), "espalier: %s\n", note)
		}
		return []any{role}, err
	}
	if len(controllers) == 0 {
		controllers = boundControllers(cmd.Context(), cluster)
	}
	if d.Namespace == "" && len(flags.instances) > 0 {
		return nil, &usageError{errors.New("--instance-namespace is for ResourceGroups: other definitions need their permissions in all namespaces")}
	}
	permissions, err := requiredPermissions(d, flags.instances, cluster.Kinds)
	if err != nil {
		return nil, err
	}
	noteUnresolved(cmd, permissions)
	noteUnbound(cmd, controllers)
	return rolesFor(d, permissions, controllers), nil
}

func noteUnresolved(cmd *cobra.Command, permissions graph.Permissions) {
	for _, gvk := range permissions.UnresolvedKinds {
		fmt.Fprintf(prose(cmd.ErrOrStderr()), "espalier: no matches for kind %q in version %q; its permissions are left out\n", gvk.Kind, gvk.GroupVersion())
	}
}

// namedDefinition returns the definition that the arguments name: of a graph, or with Compositions.
func namedDefinition(cmd *cobra.Command, flags rbacFlags, files []*workspace.File, cluster *reader.Cluster, args []string) (*v1alpha1.ResourceGraphDefinition, *composing, error) {
	if len(flags.files) == 0 {
		d, err := definitionNamed(cmd.Context(), cluster, flags.namespace, args[0])
		if flags.namespace == "" && (apierrors.IsNotFound(err) || meta.IsNoMatchError(err)) {
			composed, ofComposites := composingNamed(cmd.Context(), cluster, args[0])
			if ofComposites == nil || !apierrors.IsNotFound(ofComposites) && !meta.IsNoMatchError(ofComposites) {
				return nil, composed, ofComposites
			}
		}
		return d, nil, err
	}
	served := func(gvk schema.GroupVersionKind) (object.KindInfo, bool) {
		return servedWithoutSchema(cluster.Kinds, gvk)
	}
	if composed, err := composingIn(displayName(flags.files), files, served); composed != nil || err != nil {
		return nil, composed, err
	}
	namespace, err := flags.where.namespaceOr(flags.namespace)
	if err != nil {
		return nil, nil, err
	}
	d, err := definitionIn(displayName(flags.files), namespace, files, served)
	return d, nil, err
}

// boundControllers returns the subjects of the controllers' own ClusterRoleBinding; none if it
// cannot be read.
func boundControllers(ctx context.Context, cluster *reader.Cluster) []rbacv1.Subject {
	binding := rbacv1.ClusterRoleBinding{}
	target, err := cluster.Kinds.Target("ClusterRoleBinding.v1."+rbacv1.GroupName, "", rbac.ControllersRole)
	if err != nil {
		return nil
	}
	u, err := cluster.ResourceClient(target).Get(ctx, rbac.ControllersRole, metav1.GetOptions{})
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &binding) != nil {
		return nil
	}
	return binding.Subjects
}

// definitionIn returns the one definition in files, which may have other objects as well. What the API server or the controllers would
// refuse has no roles: a field that is ignored here, such as a misspelled serviceAccount, would silently change them. Served looks up kinds
// of the cluster. Namespace is that of a ResourceGroup without one.
func definitionIn(name, namespace string, files []*workspace.File, served func(schema.GroupVersionKind) (object.KindInfo,
	bool)) (*v1alpha1.ResourceGraphDefinition, error) {
	w := workspace.New(files, workspace.Options{Version: Version(), Kinds: served, SecretOutputs: graph.WarnOfSecretOutputs})
	if problems := errorsIn(w); len(problems) > 0 {
		return nil, errors.New(name + " is not valid:\n" + strings.Join(problems, "\n"))
	}
	group := v1alpha1.GroupVersion.Group
	found := w.Documents(schema.GroupKind{Group: group, Kind: v1alpha1.ResourceGraphDefinitionKind},
		schema.GroupKind{Group: group, Kind: v1alpha1.ResourceGroupKind})
	switch len(found) {
	case 1:
		o := found[0].Object.DeepCopy()
		o.SetNamespace(w.NamespaceOf(found[0], namespace))
		return decodeDefinition(o)
	case 0:
		return nil, fmt.Errorf("%s has no %s or %s", name, v1alpha1.ResourceGraphDefinitionKind, v1alpha1.ResourceGroupKind)
	}
	names := make([]string, len(found))
	for i, d := range found {
		names[i] = d.Object.GetKind() + " " + d.Object.GetName()
	}
	return nil, fmt.Errorf("%s has several definitions; give one: %s", name, strings.Join(names, ", "))
}

func definitionNamed(ctx context.Context, cluster *reader.Cluster, namespace, name string) (*v1alpha1.ResourceGraphDefinition, error) {
	kind := v1alpha1.ResourceGraphDefinitionKind
	if namespace != "" {
		kind = v1alpha1.ResourceGroupKind
	}
	target, err := cluster.Kinds.Target(kind+"."+v1alpha1.GroupVersion.Version+"."+v1alpha1.GroupVersion.Group, namespace, name)
	if err != nil {
		return nil, err
	}
	var u *unstructured.Unstructured
	if u, err = cluster.ResourceClient(target).Get(ctx, name, metav1.GetOptions{}); err != nil {
		return nil, err
	}
	return decodeDefinition(u)
}

// decodeDefinition decodes a definition, which must have a schema.
func decodeDefinition(u *unstructured.Unstructured) (*v1alpha1.ResourceGraphDefinition, error) {
	var d v1alpha1.ResourceGraphDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	if d.Spec.Schema == nil {
		return nil, fmt.Errorf("%s %s has no spec.schema", d.Kind, d.Name)
	}
	return &d, nil
}

// requiredPermissions returns the permissions that a definition needs in a cluster. Instances are
// further namespaces with instances of a definition in a namespace.
func requiredPermissions(d *v1alpha1.ResourceGraphDefinition, instances []string, kinds *reader.Kinds) (graph.Permissions, error) {
	var failed error
	scope := graph.Scope{Namespace: d.Namespace, Instances: instances}
	permissions := graph.RequiredPermissions(&d.Spec, scope, func(gvk schema.GroupVersionKind) (graph.Served, bool) {
		if own := d.Spec.Schema.InstanceKind(); gvk == own {
			resource, _, _ := strings.Cut(kind.NameOf(d.Spec.Schema), ".")
			return graph.Served{Resource: resource}, true
		}
		served, ok, err := servedBy(kinds, gvk)
		failed = errors.Join(failed, err)
		return served, ok
	})
	if failed != nil {
		return permissions, fmt.Errorf("look up how kinds are served: %w", failed)
	}
	return permissions, nil
}

// servedBy returns how a cluster serves a kind, or will serve it.
func servedBy(kinds *reader.Kinds, gvk schema.GroupVersionKind) (served graph.Served, ok bool, err error) {
	mapping, err := kinds.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case meta.IsNoMatchError(err):
		served, ok = servedByCatalog(gvk)
		return served, ok, nil
	case err != nil:
		return graph.Served{}, false, err
	}
	return graph.Served{Resource: mapping.Resource.Resource, ClusterScoped: mapping.Scope.Name() == meta.RESTScopeNameRoot}, true, nil
}

// servedWithoutSchema returns a kind of the cluster, whose fields are not checked.
func servedWithoutSchema(kinds *reader.Kinds, gvk schema.GroupVersionKind) (object.KindInfo, bool) {
	mapping, err := kinds.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return object.KindInfo{}, false // requiredPermissions reports it
	}
	return object.KindInfo{Namespaced: mapping.Scope.Name() == meta.RESTScopeNameNamespace}, true
}

// servedByCatalog returns how a kind of a resource type of AWS will be served: a definition may activate it, so that
// it needs its permissions before the kind exists.
func servedByCatalog(gvk schema.GroupVersionKind) (graph.Served, bool) {
	found, ok := naming.Find(catalog.Names(), gvk.GroupKind())
	if !ok || gvk.Version != naming.Version {
		return graph.Served{}, false
	}
	return graph.Served{Resource: found.Plural, ClusterScoped: found.ClusterScoped}, true
}

// rolesFor returns the roles for a definition with their bindings: to the service account that
// it names and to the controllers or, without a service account, to the controllers alone.
func rolesFor(d *v1alpha1.ResourceGraphDefinition, permissions graph.Permissions, controllers []rbacv1.Subject) []any {
	instances := rbac.Grant{Name: rbac.RoleName(d.Namespace, d.Name), Permissions: permissions.Instances}
	account := d.Spec.ServiceAccount
	if account == nil && d.Namespace != "" {
		account = &v1alpha1.ServiceAccount{Name: rbac.DefaultServiceAccount}
	}
	if account == nil {
		instances.Permissions, instances.Subjects = append(instances.Permissions, permissions.Controllers...), controllers
		return instances.Objects()
	}
	namespace := cmp.Or(account.Namespace, d.Namespace)
	instances.Subjects = []rbacv1.Subject{rbac.ServiceAccount(namespace, account.Name)}
	controllersGrant := rbac.Grant{
		Name:        rbac.ControllersRoleName(d.Namespace, d.Name),
		Permissions: append(permissions.Controllers, rbac.Impersonate(namespace, account.Name)...),
		Subjects:    controllers,
	}
	return append(instances.Objects(), controllersGrant.Objects()...)
}
