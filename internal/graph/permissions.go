package graph

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

// The verbs that a reconcile of an instance uses on the instance, on its children and on
// external objects. Children are found by their labels in all namespaces.
var (
	instanceVerbs  = []string{"get", "list", "patch"}
	childVerbs     = []string{"create", "delete", "get", "list", "patch", "watch"}
	referenceVerbs = []string{"list", "watch"}
	// controllerVerbs are used by the controllers themselves, even if they impersonate a
	// service account for the instances.
	controllerVerbs = []string{"list", "watch"}
)

// Permissions are the permissions that reconciling the instances of a definition needs.
type Permissions struct {
	// Instances are needed by the definition's service account, or by the controllers if
	// it names none.
	Instances []rbac.Permission
	// Controllers are needed by the controllers themselves in either case.
	Controllers []rbac.Permission
	// UnresolvedKinds are the kinds with unknown permissions: no resource serves them yet.
	UnresolvedKinds []schema.GroupVersionKind
}

// RequiredPermissions returns the permissions that reconciling the instances of a
// definition needs. served returns the resource that serves a kind. The definition need
// not compile: invalid nodes need no permission.
func RequiredPermissions(spec *v1alpha1.DefinitionSpec, served func(schema.GroupVersionKind) (resource string, ok bool)) (r Permissions) {
	if spec.Schema == nil {
		return r
	}
	permissionsFor := func(verbs []string, gvk schema.GroupVersionKind, sub, name string) (permissions []rbac.Permission) {
		resource, ok := served(gvk)
		if !ok {
			if !slices.Contains(r.UnresolvedKinds, gvk) {
				r.UnresolvedKinds = append(r.UnresolvedKinds, gvk)
			}
			return nil
		}
		for _, verb := range verbs {
			permissions = append(permissions, rbac.Permission{Verb: verb, Group: gvk.Group, Resource: resource + sub, Name: name})
		}
		return permissions
	}
	instanceKind := spec.Schema.InstanceKind()
	r.Controllers = permissionsFor(controllerVerbs, instanceKind, "", "")
	r.Instances = slices.Concat(permissionsFor(instanceVerbs, instanceKind, "", ""), permissionsFor([]string{"update"}, instanceKind, "/status", ""),
		permissionsFor([]string{"update"}, instanceKind, "/finalizers", "")) // for owner references with blockOwnerDeletion
	for _, d := range drafts(spec, nil) {
		switch {
		case d.broken, d.Variable:
		case !d.External:
			r.Instances = append(r.Instances, permissionsFor(childVerbs, d.Kind, "", "")...)
			r.Instances = append(r.Instances, d.namespacePermissions()...)
		default:
			r.Instances = append(r.Instances, permissionsFor(referenceVerbs, d.Kind, "", d.literalReferenceName())...)
		}
	}
	return r
}

// namespacePermissions are needed to wait for the namespace that a template names.
func (d *draft) namespacePermissions() []rbac.Permission {
	metadata, _ := d.document["metadata"].(map[string]any)
	name, _ := metadata["namespace"].(string)
	if name == "" {
		return nil // it is the instance's namespace, which exists
	}
	if strings.Contains(name, "${") {
		name = ""
	}
	permissions := rbac.PermissionsFor("", "namespaces", referenceVerbs...)
	for i := range permissions {
		permissions[i].Name = name
	}
	return permissions
}

// literalReferenceName is the name of the only object that a reference can read; empty if
// the reference has a selector or its name is an expression.
func (d *draft) literalReferenceName() string {
	name := d.source.ExternalRef.Metadata.Name
	if d.Collection || strings.Contains(name, "${") {
		return ""
	}
	return name
}
