package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/apiextensions"
	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	pkgv1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/composition/xrd"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/internal/program/functions"
)

// composing are CompositeResourceDefinitions with their Compositions.
type composing struct {
	name         string // of the first
	definitions  []*v1.CompositeResourceDefinition
	compositions []*v1.Composition
	// images are those of the Functions, by name.
	images map[string]string
}

var functionKind = pkgv1.GroupVersion.WithKind(pkgv1.FunctionKind)

func (c *composing) addFunction(o *unstructured.Unstructured) {
	c.images[o.GetName()], _, _ = unstructured.NestedString(o.Object, "spec", "package")
}

// composingIn returns what is in files of a name, which must be valid; nil if they have neither.
func composingIn(name string, files []*workspace.File, served func(schema.GroupVersionKind) (object.KindInfo, bool)) (*composing, error) {
	w := workspace.New(files, workspace.Options{Version: Version(), Kinds: served})
	documents := w.Documents(workspace.CompositeDefinitionKind, workspace.CompositionKind)
	if len(documents) == 0 {
		return nil, nil
	}
	if problems := errorsIn(w); len(problems) > 0 {
		return nil, errors.New(name + " is not valid:\n" + strings.Join(problems, "\n"))
	}
	out := &composing{name: documents[0].Object.GetName(), images: map[string]string{}}
	for _, f := range w.Documents(functionKind.GroupKind()) {
		out.addFunction(f.Object)
	}
	for _, d := range documents {
		if d.Object.GetKind() == v1.DefinitionKind {
			x, err := xrd.Read(d.Object)
			if err != nil {
				return nil, err
			}
			out.definitions = append(out.definitions, x)
			continue
		}
		c := &v1.Composition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, c); err != nil {
			return nil, fmt.Errorf("decode Composition %s: %w", d.Object.GetName(), err)
		}
		out.compositions = append(out.compositions, c)
	}
	return out, nil
}

// composingNamed returns a CompositeResourceDefinition of the cluster with its Compositions.
func composingNamed(ctx context.Context, cluster *reader.Cluster, name string) (*composing, error) {
	out := &composing{name: name, images: map[string]string{}}
	target, err := cluster.Kinds.Target(v1.DefinitionKind+"."+v1.GroupVersion.Version+"."+apiextensions.Group, "", name)
	if err != nil {
		return nil, err
	}
	o, err := cluster.ResourceClient(target).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	x, err := xrd.Read(o)
	if err != nil {
		return nil, err
	}
	out.definitions = []*v1.CompositeResourceDefinition{x}
	called, err := listAll(ctx, cluster, functionKind)
	if err != nil {
		return nil, err
	}
	for i := range called.Items {
		out.addFunction(&called.Items[i])
	}
	all, err := listAll(ctx, cluster, v1.GroupVersion.WithKind(v1.CompositionKind))
	if err != nil {
		return nil, err
	}
	for i := range all.Items {
		c := &v1.Composition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all.Items[i].Object, c); err != nil {
			return nil, fmt.Errorf("decode Composition %s: %w", all.Items[i].GetName(), err)
		}
		if of := c.Spec.CompositeTypeRef.GroupVersionKind(); of.Group == x.Spec.Group && of.Kind == x.Spec.Names.Kind {
			out.compositions = append(out.compositions, c)
		}
	}
	return out, nil
}

func listAll(ctx context.Context, cluster *reader.Cluster, kind schema.GroupVersionKind) (*unstructured.UnstructuredList, error) {
	target, err := cluster.Kinds.Target(kind.Kind+"."+kind.Version+"."+kind.Group, "", "")
	if err != nil {
		return nil, err
	}
	return cluster.ResourceClient(target).List(ctx, metav1.ListOptions{})
}

// role returns the ClusterRole that the cluster aggregates to the controllers. Its notes say what it lacks. served returns the
// plural of a kind in the cluster, or an error for which meta.IsNoMatchError holds.
func (c *composing) role(served func(schema.GroupVersionKind) (string, error)) (role *rbacv1.ClusterRole, notes []string, err error) {
	var all []rbac.Permission
	add := func(group, resource string, verbs ...string) {
		all = append(all, rbac.PermissionsFor(group, resource, verbs...)...)
	}
	reconciled := func(group, plural string) {
		for _, part := range []string{"", "/status", "/finalizers"} {
			add(group, plural+part, "get", "list", "watch", "patch", "update")
		}
	}
	secrets := false // with connection details
	for _, x := range c.definitions {
		reconciled(x.Spec.Group, x.Spec.Names.Plural)
		if x.Spec.ClaimNames != nil {
			add(x.Spec.Group, x.Spec.Names.Plural, "create", "delete")
			reconciled(x.Spec.Group, x.Spec.ClaimNames.Plural)
		}
		secrets = secrets || x.Spec.ClaimNames != nil || x.Spec.Scope == v1.LegacyClusterScope
	}
	for _, composition := range c.compositions {
		for _, step := range composition.Spec.Pipeline {
			name := functions.NameOf(step.FunctionRef.Name, c.images[step.FunctionRef.Name])
			if _, known := functions.BuiltIn()[name]; !known {
				notes = append(notes, fmt.Sprintf("step %s of Composition %s calls %s, which is not built in: add a rule for each kind that it composes", step.Step, composition.Name, name))
				continue
			}
			if functions.ComposesUnseen(name) {
				notes = append(notes, fmt.Sprintf("step %s of Composition %s calls %s, whose input does not list what it composes: add a rule for each kind", step.Step, composition.Name, step.FunctionRef.Name))
			}
			input, _ := xrd.InputOf(step)
			secrets = secrets || hasConnectionDetails(input)
			for _, t := range functions.Templates(name, input) {
				apiVersion, _ := t.Object["apiVersion"].(string)
				kind, _ := t.Object["kind"].(string)
				if kind == "" {
					continue
				}
				gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
				resource, err := c.resource(served, gvk)
				switch {
				case meta.IsNoMatchError(err):
					notes = append(notes, fmt.Sprintf("no matches for kind %q in version %q; its permissions are left out", gvk.Kind, gvk.GroupVersion()))
				case err != nil:
					return nil, nil, fmt.Errorf("look up how kinds are served: %w", err)
				default:
					add(gvk.Group, resource, "get", "list", "watch", "create", "patch", "delete")
				}
			}
		}
	}
	if secrets {
		add("", "secrets", "get", "list", "watch", "create", "patch", "delete")
	}
	slices.Sort(notes)
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metav1.ObjectMeta{Name: "espalier-composed-" + c.name, Labels: map[string]string{rbac.AggregateToControllersLabel: "true"}},
		Rules:      rbac.Rules(rbac.Distinct(all)),
	}, slices.Compact(notes), nil
}

// hasConnectionDetails says whether a composed resource in the input of function-patch-and-transform has connection details:
// for composites without connection Secrets of their own, they become a composed Secret.
func hasConnectionDetails(input map[string]any) bool {
	resources, _, _ := unstructured.NestedSlice(input, "resources")
	return slices.ContainsFunc(resources, func(r any) bool {
		resource, _ := r.(map[string]any)
		details, _ := resource["connectionDetails"].([]any)
		return len(details) > 0
	})
}

// resource returns the plural of a kind that the cluster serves, or that the definitions will serve.
func (c *composing) resource(served func(schema.GroupVersionKind) (string, error), gvk schema.GroupVersionKind) (string, error) {
	for _, x := range c.definitions {
		if x.Spec.Group == gvk.Group && x.Spec.Names.Kind == gvk.Kind {
			return x.Spec.Names.Plural, nil
		}
	}
	resource, err := served(gvk)
	if activated, ok := servedByCatalog(gvk); ok && meta.IsNoMatchError(err) {
		return activated.Resource, nil
	}
	return resource, err
}
