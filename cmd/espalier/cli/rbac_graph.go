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
	"github.com/espalier-dev/espalier/internal/simulation"
)

// graphsIn returns the Graphs in files, which must not have definitions as well.
func graphsIn(files []*workspace.File) (out []*unstructured.Unstructured, err error) {
	definition := ""
	for _, f := range files {
		for _, d := range f.Documents() {
			switch {
			case d.Object.GroupVersionKind() == graph.GraphKind:
				out = append(out, d.Object)
			case simulation.IsDefinition(d.Object):
				definition = d.Object.GetKind() + " " + d.Object.GetName()
			}
		}
	}
	if len(out) > 0 && definition != "" {
		return nil, &usageError{fmt.Errorf("the files have Graphs and %s: print the roles of Graphs apart from those of definitions", definition)}
	}
	return out, nil
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
