// Package permissions decides what the ServiceAccount of a provider's revision may do, and what users may do with its kinds.
//
// Names and labels of the roles are Crossplane's, so bindings and aggregated roles keep working. Unlike there, a bound limits all of
// them: rules that the administrator has chosen. What a provider would need beyond these is withheld, and named.
//
// Pure: it decides from values alone.
package permissions

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/kube/rbac"
)

// FamilyLabel is the label of the revisions of a family of providers, which use each other's kinds.
const FamilyLabel = "pkg.crossplane.io/provider-family"

const labels = "rbac.crossplane.io/"

var (
	all   = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	read  = []string{"get", "list", "watch"}
	serve = []string{"create", "get", "list", "patch", "update", "watch"}
)

// Revision is a revision of a provider.
type Revision struct {
	Name string
	UID  types.UID
	// Source is the repository of its package, with the registry.
	Source string
	// Family is the family that the package says it is of; empty for none.
	Family string
	// Kinds are the kinds that it installs.
	Kinds []rbac.Resource
	// SafeStart says that its program waits for its kinds, and so reads CustomResourceDefinitions.
	SafeStart bool
}

// Grant is what is granted for a revision.
type Grant struct {
	// Requested is what its program needs, and Withheld what of it the bound does not allow.
	Requested, Withheld []rbac.Permission
	// Roles are none for a revision without kinds. Binding is nil without an account or without roles.
	Roles   []*rbacv1.ClusterRole
	Binding *rbacv1.ClusterRoleBinding
}

// Unbounded is the bound that allows everything.
var Unbounded = []rbacv1.PolicyRule{{APIGroups: []string{rbacv1.APIGroupAll}, Resources: []string{rbacv1.ResourceAll}, Verbs: []string{rbacv1.VerbAll}}}

// Compute decides for a revision. The others are all active revisions of providers, and account is who runs the program; nil if that
// is unknown.
func Compute(r Revision, others []Revision, account *rbacv1.Subject, bound []rbacv1.PolicyRule) Grant {
	if len(r.Kinds) == 0 {
		return Grant{}
	}
	requested := needs(r, others)
	g := Grant{Requested: requested, Withheld: rbac.Missing(bound, requested)}
	if len(bound) == 0 {
		return g
	}
	var edit, view []rbac.Permission
	for _, k := range r.Kinds {
		edit = append(edit, rbac.PermissionsFor(k.Group, k.Name, all...)...)
		edit = append(edit, rbac.PermissionsFor(k.Group, k.Name+"/status", "get", "patch", "update")...)
		view = append(view, rbac.PermissionsFor(k.Group, k.Name, read...)...)
		view = append(view, rbac.PermissionsFor(k.Group, k.Name+"/status", "get")...)
	}
	on, prefix := "true", "crossplane:provider:"+r.Name+":"
	g.Roles = []*rbacv1.ClusterRole{
		r.role(prefix+"aggregate-to-edit", map[string]string{
			labels + "aggregate-to-crossplane": on, labels + "aggregate-to-admin": on, labels + "aggregate-to-edit": on,
		}, edit, bound),
		r.role(prefix+"aggregate-to-view", map[string]string{labels + "aggregate-to-view": on}, view, bound),
		r.role(prefix+"system", map[string]string{labels + "system": r.Name}, requested, bound),
	}
	if account != nil {
		g.Binding = &rbacv1.ClusterRoleBinding{
			ObjectMeta: r.metadata(prefix+"system", nil), Subjects: []rbacv1.Subject{*account},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: prefix + "system"},
		}
	}
	return g
}

// needs is what a program needs for its own kinds, the kinds of its family, and for credentials, leader election and events.
func needs(r Revision, others []Revision) (out []rbac.Permission) {
	kinds := map[rbac.Resource]bool{}
	for _, one := range append(slices.Clone(others), r) {
		if one.Name == r.Name || r.isRelated(one) {
			for _, k := range one.Kinds {
				kinds[k] = true
			}
		}
	}
	for k := range maps.Keys(kinds) {
		out = append(out, rbac.PermissionsFor(k.Group, k.Name, serve...)...)
		out = append(out, rbac.PermissionsFor(k.Group, k.Name+"/status", "get", "patch", "update")...)
		out = append(out, rbac.PermissionsFor(k.Group, k.Name+"/finalizers", "update")...)
	}
	for _, k := range []rbac.Resource{
		{Name: "secrets"}, {Name: "configmaps"}, {Name: "events"}, {Group: "events.k8s.io", Name: "events"}, {Group: "coordination.k8s.io", Name: "leases"},
	} {
		out = append(out, rbac.PermissionsFor(k.Group, k.Name, all...)...)
	}
	if r.SafeStart {
		out = append(out, rbac.PermissionsFor("apiextensions.k8s.io", "customresourcedefinitions", read...)...)
	}
	return rbac.Distinct(out)
}

// isRelated reports whether another revision is of the same family. Anybody can write any label into a package, so it must also be
// of the same organization.
func (r Revision) isRelated(other Revision) bool {
	return r.Family != "" && r.Family == other.Family && organization(r.Source) == organization(other.Source)
}

// organization is the registry of a source with the first segment of the path.
func organization(source string) string {
	parts := strings.SplitN(source, "/", 3)
	return strings.Join(parts[:min(len(parts), 2)], "/")
}

func (r Revision) role(name string, labels map[string]string, wanted []rbac.Permission, bound []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	withheld := rbac.Missing(bound, wanted)
	allowed := slices.DeleteFunc(wanted, func(p rbac.Permission) bool { return slices.Contains(withheld, p) })
	return &rbacv1.ClusterRole{ObjectMeta: r.metadata(name, labels), Rules: rbac.Rules(allowed)}
}

// metadata has an owner unless the revision does not exist.
func (r Revision) metadata(name string, labels map[string]string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, Labels: labels}
	if r.UID != "" {
		m.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1.GroupVersion.String(), Kind: v1.ProviderRevisionKind, Name: r.Name, UID: r.UID,
			Controller: new(true), BlockOwnerDeletion: new(true),
		}}
	}
	return m
}

// ResourceOf returns the kind that an object of a package installs: CustomResourceDefinitions and ManagedResourceDefinitions are
// named for it.
func ResourceOf(kind, name string) (r rbac.Resource, ok bool) {
	if kind != "CustomResourceDefinition" && kind != "ManagedResourceDefinition" {
		return r, false
	}
	r.Name, r.Group, ok = strings.Cut(name, ".")
	return r, ok
}

// IsCapability compares capabilities as Crossplane does: letters and digits, of any case.
func IsCapability(text, capability string) bool {
	simplified := func(text string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return -1
		}, strings.ToLower(text))
	}
	return simplified(text) == simplified(capability)
}
