package cli

import (
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
	"github.com/espalier-dev/espalier/internal/crd"
	"github.com/espalier-dev/espalier/internal/follow"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/rights"
)

// rbacFlags are which definition is meant, and where it is.
type rbacFlags struct {
	where     clusterFlags
	namespace string
	file      string
}

func newRBAC() *cobra.Command {
	var flags rbacFlags
	cmd := &cobra.Command{
		Use:   "rbac DEFINITION",
		Short: "Print the smallest role that a definition's instances can be looked after with",
		Long: "Prints a ClusterRole with the rights that the instances of a definition of a graph are\n" +
			"looked after with, and no others, and a ClusterRoleBinding to the service account that\n" +
			"the definition names (spec.serviceAccount). Nothing is changed.\n\n" +
			"What grants rights in its turn (a RoleBinding in a template, say) needs more: Kubernetes\n" +
			"lets nobody grant what he hasn't himself.",
		Example: "  espalier rbac webapps | kubectl apply -f -\n" +
			"  espalier rbac -f definition.yaml",
		RunE: func(cmd *cobra.Command, args []string) error { return rbac(cmd, flags, args) },
	}
	flags.where.add(cmd)
	cmd.Flags().StringVarP(&flags.namespace, "namespace", "n", "", "where the definition is, if it is a ResourceGroup")
	cmd.Flags().StringVarP(&flags.file, "filename", "f", "", "the file with the definition, instead of one in the cluster; - for the standard input")
	return cmd
}

func rbac(cmd *cobra.Command, flags rbacFlags, args []string) error {
	if (flags.file == "") != (len(args) == 1) || len(args) > 1 {
		return &usageError{errors.New("rbac takes the name of a definition, or --filename")}
	}
	config, err := flags.where.config()
	if err != nil {
		return err
	}
	cluster, err := follow.New(config)
	if err != nil {
		return err
	}
	var d *v1alpha1.ResourceGraphDefinition
	if flags.file != "" {
		d, err = definitionIn(cmd.InOrStdin(), flags.file)
	} else {
		d, err = definitionNamed(cmd.Context(), cluster, flags.namespace, args[0])
	}
	if err != nil {
		return err
	}
	role, binding, unknown, err := roleFor(d, cluster.Kinds)
	if err != nil {
		return err
	}
	for _, gvk := range unknown {
		fmt.Fprintf(cmd.ErrOrStderr(), "espalier: the cluster serves no %s of %s yet; what is needed for it is left out\n", gvk.Kind, gvk.GroupVersion())
	}
	documents := []any{role}
	if binding != nil {
		documents = append(documents, binding)
	}
	for i, document := range documents {
		text, err := yaml.Marshal(document)
		if err != nil {
			return fmt.Errorf("encode the role: %w", err)
		}
		separator := map[bool]string{true: "---\n"}[i > 0]
		fmt.Fprint(cmd.OutOrStdout(), separator, string(text))
	}
	return nil
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

// roleFor is the role for a definition, with the binding to the service account that it
// names, if it does, and the kinds that nobody serves yet.
func roleFor(d *v1alpha1.ResourceGraphDefinition, kinds *follow.Kinds) (*rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, []schema.GroupVersionKind, error) {
	var failed error
	needs, unknown := graph.Needs(&d.Spec, func(gvk schema.GroupVersionKind) (string, bool) {
		if own := d.Spec.Schema.InstanceKind(); gvk == own {
			resource, _, _ := strings.Cut(crd.NameOf(d.Spec.Schema), ".")
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
		return nil, nil, nil, fmt.Errorf("look up how kinds are served: %w", failed)
	}
	name := "espalier:" + d.Name
	if d.Namespace != "" {
		name = "espalier:" + d.Namespace + ":" + d.Name
	}
	role := &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      rights.Rules(needs),
	}
	account := d.Spec.ServiceAccount
	if account == nil {
		return role, nil, unknown, nil
	}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}
	if subject.Namespace == "" {
		subject.Namespace = d.Namespace
	}
	return role, &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{subject},
	}, unknown, nil
}
