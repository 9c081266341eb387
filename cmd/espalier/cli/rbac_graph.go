package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/observe/reader"
)

// graphsIn returns the Graphs in files.
func graphsIn(files []*workspace.File) (out []*unstructured.Unstructured) {
	w := workspace.New(files, workspace.Options{Version: Version()})
	for _, d := range w.Documents(graph.GraphKind.GroupKind()) {
		out = append(out, d.Object)
	}
	return out
}

// graphSpec decodes a Graph. A field that is ignored here, such as a misspelled serviceAccountName, would silently change the roles.
func graphSpec(o *unstructured.Unstructured) (*v1alpha1.GraphSpec, error) {
	var g v1alpha1.Graph
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &g, true); err != nil {
		return nil, err
	}
	_, problems := graph.CompileGraph(&g.Spec, nil, graph.WithSecretOutputs(graph.WarnOfSecretOutputs)) // types do not matter to roles
	return &g.Spec, problems.Err()
}

// graphRoles are the roles that the accounts of Graphs need, and the controllers to impersonate them.
func graphRoles(cmd *cobra.Command, flags rbacFlags, controllers []rbacv1.Subject, graphs []*unstructured.Unstructured) (out []any, err error) {
	config, err := flags.where.config()
	if err != nil {
		return nil, err
	}
	cluster, err := reader.New(config)
	if err != nil {
		return nil, err
	}
	if len(controllers) == 0 {
		controllers = boundControllers(cmd.Context(), cluster)
	}
	noteUnbound(cmd, controllers)
	for _, o := range graphs {
		namespace := o.GetNamespace()
		if namespace == "" {
			if namespace, err = flags.where.namespaceOr(flags.namespace); err != nil {
				return nil, err
			}
		}
		spec, err := graphSpec(o)
		if err != nil {
			return nil, fmt.Errorf("%s %s is not valid: %w", v1alpha1.GraphKind, o.GetName(), err)
		}
		var failed error
		permissions := graph.RequiredPermissionsOfGraph(spec, namespace, func(gvk schema.GroupVersionKind) (graph.Served, bool) {
			served, ok, err := servedBy(cluster.Kinds, gvk)
			failed = errors.Join(failed, err)
			return served, ok
		})
		if failed != nil {
			return nil, fmt.Errorf("look up how kinds are served: %w", failed)
		}
		noteUnresolved(cmd, permissions)
		account := cmp.Or(spec.ServiceAccountName, "default")
		name := strings.Join([]string{"graph", namespace, o.GetName()}, ":")
		for _, grant := range []rbac.Grant{
			{Name: rbac.RoleName("", name), Permissions: permissions.Instances, Subjects: []rbacv1.Subject{rbac.ServiceAccount(namespace, account)}},
			{Name: rbac.ControllersRoleName("", name), Permissions: rbac.Impersonate(namespace, account), Subjects: controllers},
		} {
			out = append(out, grant.Objects()...)
		}
	}
	return out, nil
}
