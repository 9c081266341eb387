package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/cmd/espalier/cli/follow"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

// rbacFlags are whose rights are asked for, and who is to have them.
type rbacFlags struct {
	where       clusterFlags
	namespace   string
	file        string
	account     string
	user        string
	controllers bool
	program     programFlags
}

func newRBAC() *cobra.Command {
	var flags rbacFlags
	cmd := &cobra.Command{
		Use:   "rbac DEFINITION | --controllers",
		Short: "Print the smallest roles that a definition's instances, or the controllers, can do with",
		Long: "Prints a ClusterRole with the rights that the instances of a definition of a graph are\n" +
			"looked after with, and no others, and a ClusterRoleBinding to who does so: the service\n" +
			"account that the definition names (spec.serviceAccount), or else the controllers. With\n" +
			"an account, what the controllers need themselves comes in roles of its own. Nothing is\n" +
			"changed.\n\n" +
			"With --controllers it prints what the controllers need in every cluster, before there\n" +
			"is any definition. --serviceaccount or --user says who they run as; for a definition\n" +
			"that is read from the ClusterRoleBinding " + rbac.ControllersRole + " otherwise.\n\n" +
			"What grants rights in its turn (a RoleBinding in a template, say) needs more: Kubernetes\n" +
			"lets nobody grant rights that they don't have. So do composites with what they are\n" +
			"composed of, and what a Usage is about.",
		Example: "  espalier rbac --controllers --serviceaccount espalier-system:espalier | kubectl apply -f -\n" +
			"  espalier rbac webapps | kubectl apply -f -\n" +
			"  espalier rbac -f definition.yaml",
		RunE: func(cmd *cobra.Command, args []string) error { return printRBAC(cmd, flags, args) },
	}
	flags.where.add(cmd)
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", "", "where the definition is, if it is a ResourceGroup")
	cmd.Flags().StringVarP(&flags.file, "filename", "f", "", "the file with the definition, instead of one in the cluster; - for the standard input")
	cmd.Flags().StringVar(&flags.account, "serviceaccount", "", "the service account that the controllers run as: NAMESPACE:NAME")
	cmd.Flags().StringVar(&flags.user, "user", "", "the user that they run as, if that is no service account")
	cmd.Flags().BoolVar(&flags.controllers, "controllers", false, "print what the controllers need in every cluster")
	flags.program.add(cmd)
	return cmd
}

func printRBAC(cmd *cobra.Command, flags rbacFlags, args []string) error {
	if flags.controllers && (flags.file != "" || len(args) > 0) {
		return &usageError{errors.New("rbac --controllers takes no definition")}
	}
	if !flags.controllers && ((flags.file == "") != (len(args) == 1) || len(args) > 1) {
		return &usageError{errors.New("rbac takes the name of a definition, or --filename, or --controllers")}
	}
	controllers, err := flags.subjects()
	if err != nil {
		return &usageError{err}
	}
	var objects []any
	if flags.controllers {
		objects, err = flags.program.role(controllers)
	} else {
		objects, controllers, err = definitionRoles(cmd, flags, controllers, args)
	}
	if err != nil {
		return err
	}
	if len(controllers) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "espalier: no binding to the controllers is printed, since it isn't known who they run as; say so by --serviceaccount NAMESPACE:NAME or --user NAME")
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

// subjects are who the controllers run as, if the flags say so.
func (f rbacFlags) subjects() ([]rbacv1.Subject, error) {
	switch {
	case f.account != "" && f.user != "":
		return nil, errors.New("--serviceaccount and --user: one of both")
	case f.user != "":
		return []rbacv1.Subject{rbac.User(f.user)}, nil
	case f.account != "":
		account, err := rbac.ParseAccount(f.account)
		if err != nil {
			return nil, fmt.Errorf("--serviceaccount %w, not %s", err, f.account)
		}
		return []rbacv1.Subject{account}, nil
	}
	return nil, nil
}

// definitionRoles are the roles for a definition. It tells of kinds that aren't served yet,
// and finds out who the controllers run as, unless that is known.
func definitionRoles(cmd *cobra.Command, flags rbacFlags, controllers []rbacv1.Subject, args []string) ([]any, []rbacv1.Subject, error) {
	config, err := flags.where.config()
	if err != nil {
		return nil, nil, err
	}
	cluster, err := follow.New(config)
	if err != nil {
		return nil, nil, err
	}
	var d *v1alpha1.ResourceGraphDefinition
	if flags.file != "" {
		d, err = definitionIn(cmd.InOrStdin(), flags.file)
	} else {
		d, err = definitionNamed(cmd.Context(), cluster, flags.namespace, args[0])
	}
	if err != nil {
		return nil, nil, err
	}
	if len(controllers) == 0 {
		controllers = boundControllers(cmd.Context(), cluster)
	}
	needs, err := neededFor(d, cluster.Kinds)
	if err != nil {
		return nil, nil, err
	}
	for _, gvk := range needs.Unknown {
		fmt.Fprintf(cmd.ErrOrStderr(), "espalier: the cluster serves no %s of %s yet; what is needed for it is left out\n", gvk.Kind, gvk.GroupVersion())
	}
	return rolesFor(d, needs, controllers), controllers, nil
}

// boundControllers are who the controllers' own role is bound to; none if that can't be read.
func boundControllers(ctx context.Context, cluster *follow.Cluster) []rbacv1.Subject {
	binding := rbacv1.ClusterRoleBinding{}
	target, err := cluster.Kinds.Target("ClusterRoleBinding.v1."+rbacv1.GroupName, "", rbac.ControllersRole)
	if err != nil {
		return nil
	}
	u, err := cluster.Of(target).Get(ctx, rbac.ControllersRole, metav1.GetOptions{})
	if err != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &binding) != nil {
		return nil
	}
	return binding.Subjects
}

// longestDefinition bounds what is read of a file.
const longestDefinition = 4 << 20 // bytes: more than an API server stores

func definitionIn(stdin io.Reader, path string) (*v1alpha1.ResourceGraphDefinition, error) {
	from := stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		from = file
	}
	raw, err := io.ReadAll(io.LimitReader(from, longestDefinition))
	if err != nil {
		return nil, err
	}
	var d v1alpha1.ResourceGraphDefinition
	if err := yaml.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return definition(&d)
}

func definitionNamed(ctx context.Context, cluster *follow.Cluster, namespace, name string) (*v1alpha1.ResourceGraphDefinition, error) {
	kind := v1alpha1.ResourceGraphDefinitionKind
	if namespace != "" {
		kind = v1alpha1.ResourceGroupKind
	}
	target, err := cluster.Kinds.Target(kind+"."+v1alpha1.GroupVersion.Version+"."+v1alpha1.GroupVersion.Group, namespace, name)
	if err != nil {
		return nil, err
	}
	var u *unstructured.Unstructured
	if u, err = cluster.Of(target).Get(ctx, name, metav1.GetOptions{}); err != nil {
		return nil, err
	}
	var d v1alpha1.ResourceGraphDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &d); err != nil {
		return nil, fmt.Errorf("%s can't be read: %w", target, err)
	}
	return definition(&d)
}

// definition checks that it is one.
func definition(d *v1alpha1.ResourceGraphDefinition) (*v1alpha1.ResourceGraphDefinition, error) {
	known := d.Kind == v1alpha1.ResourceGraphDefinitionKind || d.Kind == v1alpha1.ResourceGroupKind
	if d.APIVersion != v1alpha1.GroupVersion.String() || !known || d.Spec.Schema == nil {
		return nil, fmt.Errorf("%s %s of %s is no definition of a graph", d.Kind, d.Name, d.APIVersion)
	}
	return d, nil
}

// neededFor are the rights for a definition in a cluster.
func neededFor(d *v1alpha1.ResourceGraphDefinition, kinds *follow.Kinds) (graph.Rights, error) {
	var failed error
	needs := graph.Needs(&d.Spec, func(gvk schema.GroupVersionKind) (string, bool) {
		if own := d.Spec.Schema.InstanceKind(); gvk == own {
			resource, _, _ := strings.Cut(kind.NameOf(d.Spec.Schema), ".")
			return resource, true
		}
		mapping, err := kinds.Serving(gvk.GroupKind(), gvk.Version)
		if err != nil {
			if !follow.IsUnknown(err) {
				failed = err
			}
			return "", false
		}
		return mapping.Resource.Resource, true
	})
	if failed != nil {
		return needs, fmt.Errorf("look up how kinds are served: %w", failed)
	}
	return needs, nil
}

// rolesFor are the roles for a definition with their bindings: to the account that it names
// and to the controllers, or, without an account, to these alone.
func rolesFor(d *v1alpha1.ResourceGraphDefinition, needs graph.Rights, controllers []rbacv1.Subject) []any {
	instances := rbac.Grant{Name: rbac.RoleOf(d.Namespace, d.Name), Needs: needs.Instances}
	account := d.Spec.ServiceAccount
	if account == nil {
		instances.Needs, instances.To = append(instances.Needs, needs.Controllers...), controllers
		return instances.Objects()
	}
	namespace := cmp.Or(account.Namespace, d.Namespace)
	instances.To = []rbacv1.Subject{rbac.Account(namespace, account.Name)}
	beside := rbac.Grant{
		Name:  rbac.ControllersRoleOf(d.Namespace, d.Name),
		Needs: append(needs.Controllers, rbac.Impersonate(namespace, account.Name)),
		To:    controllers,
	}
	return append(instances.Objects(), beside.Objects()...)
}
