package graph

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

// The verbs that a reconcile of an instance uses on the instance, on its children and on external objects. Children
// are found by their labels: in all namespaces, or, for a definition in a namespace, in the namespaces where an
// instance may have some.
var (
	instanceVerbs  = []string{"get", "list", "patch"}
	childVerbs     = []string{"create", "delete", "get", "list", "patch", "watch"}
	referenceVerbs = []string{"list", "watch"}
	// contributionVerbs are used on the object of a patch, and contributedStatusVerbs if it patches the status.
	contributionVerbs      = []string{"get", "list", "patch", "watch"}
	contributedStatusVerbs = []string{"get", "list", "watch"}
	// controllerVerbs are used by the controllers themselves, even if they impersonate a
	// service account for the instances.
	controllerVerbs = []string{"get", "list", "watch"}
	// finalizerVerb is used by the controllers to remove the finalizers of instances whose namespace
	// is being deleted: the roles of their account in it are gone then.
	finalizerVerb = "patch"
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

// Scope says where the permissions of a definition's account are needed: the account of a definition in a namespace
// needs them in single namespaces.
type Scope struct {
	// Namespace is the definition's own; empty for a cluster-scoped definition, whose account needs
	// its permissions in all namespaces.
	Namespace string
	// Instances are further namespaces that contain instances of a definition in a namespace.
	Instances []string
}

// instances are the namespaces that instances are in; one empty one stands for all.
func (s Scope) instances() []string {
	if s.Namespace == "" {
		return []string{""}
	}
	all := append([]string{s.Namespace}, s.Instances...)
	slices.Sort(all)
	return slices.Compact(all)
}

// Served is how a kind is served.
type Served struct {
	Resource      string
	ClusterScoped bool
}

// RequiredPermissions returns the permissions that reconciling the instances of a definition needs in a scope. served says
// how a kind is served. The definition need not compile: invalid nodes need no permission. A namespace that a template or a
// reference computes is unknown: there the permissions come on top.
func RequiredPermissions(spec *v1alpha1.DefinitionSpec, scope Scope, served func(schema.GroupVersionKind) (Served, bool)) Permissions {
	if spec.Schema == nil {
		return Permissions{}
	}
	n := needs{scope: scope, served: served}
	instanceKind := spec.Schema.InstanceKind()
	n.Controllers = n.permissionsFor(controllerVerbs, instanceKind, []string{""}, "", "")
	if scope.Namespace != "" {
		n.Controllers = append(n.Controllers, n.permissionsFor([]string{finalizerVerb}, instanceKind, []string{""}, "", "")...)
	}
	instances := scope.instances()
	if spec.Schema.Scope == v1alpha1.ClusterScope {
		instances = []string{""}
	}
	n.Instances = slices.Concat(n.permissionsFor(instanceVerbs, instanceKind, instances, "", ""),
		n.permissionsFor([]string{"update"}, instanceKind, instances, "/status", ""),
		n.permissionsFor([]string{"update"}, instanceKind, instances, "/finalizers", "")) // for owner references with blockOwnerDeletion
	n.addNodes(drafts(spec, Graph{}))
	return n.Permissions
}

// RequiredPermissionsOfGraph is RequiredPermissions for the account of a Graph in a namespace.
func RequiredPermissionsOfGraph(spec *v1alpha1.GraphSpec, namespace string, served func(schema.GroupVersionKind) (Served, bool)) Permissions {
	n := needs{scope: Scope{Namespace: namespace}, served: served}
	definition, host, _ := asDefinition(spec)
	n.addNodes(drafts(definition, Graph{standalone: host}))
	return n.Permissions
}

func (n *needs) addNodes(all []*draft) {
	watched := n.watchedNamespaces(all)
	for _, d := range all {
		switch {
		case d.broken, d.Variable, d.Kind == notComputedYet:
		case d.Patch && d.subresource == "":
			n.Instances = append(n.Instances, n.permissionsFor(contributionVerbs, d.Kind, n.namespacesOf(d), "", d.literalName())...)
		case d.Patch:
			n.Instances = append(n.Instances, n.permissionsFor(contributedStatusVerbs, d.Kind, n.namespacesOf(d), "", d.literalName())...)
			n.Instances = append(n.Instances, n.permissionsFor([]string{"patch"}, d.Kind, n.namespacesOf(d), "/"+d.subresource, d.literalName())...)
		case !d.External:
			n.Instances = append(n.Instances, n.permissionsFor(childVerbs, d.Kind, n.namespacesOf(d), "", "")...)
			n.Instances = append(n.Instances, n.permissionsFor(referenceVerbs, d.Kind, watched, "", "")...)
			if n.scope.Namespace == "" {
				n.Instances = append(n.Instances, d.namespacePermissions()...)
			}
		default:
			n.Instances = append(n.Instances, n.permissionsFor(referenceVerbs, d.Kind, n.namespacesOf(d), "", d.literalName())...)
		}
	}
}

type needs struct {
	Permissions
	scope  Scope
	served func(schema.GroupVersionKind) (Served, bool)
}

// permissionsFor returns the permissions to use verbs on a kind in some namespaces; an empty one
// stands for all.
func (n *needs) permissionsFor(verbs []string, gvk schema.GroupVersionKind, namespaces []string, sub, name string) (permissions []rbac.Permission) {
	served, ok := n.served(gvk)
	if !ok {
		if !slices.Contains(n.UnresolvedKinds, gvk) {
			n.UnresolvedKinds = append(n.UnresolvedKinds, gvk)
		}
		return nil
	}
	if served.ClusterScoped {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		for _, verb := range verbs {
			permissions = append(permissions, rbac.Permission{Verb: verb, Group: gvk.Group, Resource: served.Resource + sub, Name: name, Namespace: namespace})
		}
	}
	return permissions
}

// namespacesOf are the namespaces of a node's objects, as far as they are known; an empty one
// stands for all.
func (n *needs) namespacesOf(d *draft) []string {
	switch name := d.namespace(); {
	case n.scope.Namespace == "", name == "" && d.isSelection(): // a selector without a namespace
		return []string{""}
	case name == "", isInstanceNamespace(name):
		return n.scope.instances()
	case strings.Contains(name, "${"):
		return nil
	default:
		return []string{name}
	}
}

// watchedNamespaces are the namespaces in which an instance may have children: each kind is watched in each, because
// the inventory of an instance has no namespaces for each kind.
func (n *needs) watchedNamespaces(all []*draft) []string {
	watched := n.scope.instances()
	for _, d := range all {
		if !d.broken && !d.Variable && !d.External {
			watched = append(watched, n.namespacesOf(d)...)
		}
	}
	slices.Sort(watched)
	return slices.Compact(watched)
}

// namespace returns an empty string if the document names none.
func (d *draft) namespace() string {
	metadata, _ := d.document["metadata"].(map[string]any)
	name, _ := metadata["namespace"].(string)
	return strings.TrimSpace(name)
}

// isInstanceNamespace reports whether a namespace is computed only from the instance's namespace.
func isInstanceNamespace(name string) bool {
	expression, begins := strings.CutPrefix(name, "${")
	expression, ends := strings.CutSuffix(expression, "}")
	return begins && ends && strings.TrimSpace(expression) == "schema.metadata.namespace"
}

// namespacePermissions are needed to wait for the namespace that a template names. An account
// with permissions in single namespaces has them in namespaces that exist.
func (d *draft) namespacePermissions() []rbac.Permission {
	name := d.namespace()
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

// literalName is the name of the only object that a reference reads or a patch writes; empty if
// there may be several or the name is an expression.
func (d *draft) literalName() string {
	metadata, _ := d.document["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if d.Collection || strings.Contains(name, "${") {
		return ""
	}
	return name
}
