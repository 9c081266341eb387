// Package rbac computes with permissions of role-based access control (RBAC): what is
// needed, what rules grant, and what is missing.
// See docs/design/0010-accounts-and-permissions.md.
//
// Pure: it decides from values alone.
package rbac

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/espalier-dev/espalier/internal/object"
)

// Permission is the right to use one verb on a resource.
type Permission struct {
	Verb string
	// Resource may name a subresource, as "pods/status".
	Group, Resource string
	// Name limits it to one object; empty for all.
	Name string
	// Namespace limits it to one namespace; empty for all.
	Namespace string
}

// PermissionsFor returns the permissions to use several verbs on a resource.
func PermissionsFor(group, resource string, verbs ...string) []Permission {
	out := make([]Permission, len(verbs))
	for i, verb := range verbs {
		out[i] = Permission{Verb: verb, Group: group, Resource: resource}
	}
	return out
}

// PermissionsIn returns the permissions that rules for all objects grant. A wildcard stays one.
func PermissionsIn(rules []rbacv1.PolicyRule) (out []Permission) {
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				out = append(out, PermissionsFor(group, resource, r.Verbs...)...)
			}
		}
	}
	return out
}

// String describes the permission: "list secrets", "get things.example.com named x".
func (p Permission) String() string {
	text := p.Verb + " " + p.resourceArgument()
	if p.Name != "" {
		text += " named " + p.Name
	}
	if p.Namespace != "" {
		text += " in namespace " + p.Namespace
	}
	return text
}

func (p Permission) resourceArgument() string {
	resource, sub, isSubresource := strings.Cut(p.Resource, "/")
	if p.Group != "" {
		resource += "." + p.Group
	}
	if isSubresource {
		resource += "/" + sub
	}
	return resource
}

// Missing returns the required permissions that no rule grants, sorted. The rules apply in the
// namespaces of the permissions.
func Missing(granted []rbacv1.PolicyRule, required []Permission) []Permission {
	var out []Permission
	for _, p := range normalize(required) {
		if !slices.ContainsFunc(granted, p.isGrantedBy) {
			out = append(out, p)
		}
	}
	return out
}

func (p Permission) isGrantedBy(rule rbacv1.PolicyRule) bool {
	return has(rule.Verbs, rbacv1.VerbAll, p.Verb) && has(rule.APIGroups, rbacv1.APIGroupAll, p.Group) &&
		p.isResourceIn(rule.Resources) && (len(rule.ResourceNames) == 0 || p.Name != "" && slices.Contains(rule.ResourceNames, p.Name))
}

// isResourceIn reports whether a rule's resources contain the resource: "*" contains all, and "*/status" the
// subresource of all resources.
func (p Permission) isResourceIn(resources []string) bool {
	_, sub, isSubresource := strings.Cut(p.Resource, "/")
	return has(resources, rbacv1.ResourceAll, p.Resource) || isSubresource && slices.Contains(resources, "*/"+sub)
}

func has(all []string, wildcard, one string) bool {
	return slices.Contains(all, wildcard) || slices.Contains(all, one)
}

// Rules returns the fewest rules that grant the permissions, and nothing else: resources of
// a group that need the same verbs share a rule. It ignores namespaces; see Scopes.
func Rules(permissions []Permission) []rbacv1.PolicyRule {
	type subject struct{ group, resource, name, namespace string }
	verbs := map[subject][]string{}
	var subjects []subject
	for _, p := range normalize(permissions) {
		s := subject{p.Group, p.Resource, p.Name, p.Namespace}
		if _, known := verbs[s]; !known {
			subjects = append(subjects, s)
		}
		verbs[s] = append(verbs[s], p.Verb)
	}
	var out []rbacv1.PolicyRule
	for _, s := range subjects {
		var names []string
		if s.name != "" {
			names = []string{s.name}
		}
		like := func(r rbacv1.PolicyRule) bool {
			return r.APIGroups[0] == s.group && slices.Equal(r.Verbs, verbs[s]) && slices.Equal(r.ResourceNames, names)
		}
		if i := slices.IndexFunc(out, like); i >= 0 {
			out[i].Resources = append(out[i].Resources, s.resource)
			continue
		}
		out = append(out, rbacv1.PolicyRule{APIGroups: []string{s.group}, Resources: []string{s.resource}, ResourceNames: names, Verbs: verbs[s]})
	}
	return out
}

// Digest identifies what rules grant, in whatever order they come.
func Digest(rules []rbacv1.PolicyRule) string {
	texts := make([]string, len(rules))
	for i, r := range rules {
		texts[i] = object.Digest(r)
	}
	slices.Sort(texts)
	return object.Digest(slices.Compact(texts))
}

// Scope is the permissions needed in one namespace, or in all if Namespace is empty.
type Scope struct {
	Namespace   string
	Permissions []Permission
}

// Scopes groups permissions by namespace, all namespaces first.
func Scopes(permissions []Permission) []Scope {
	var out []Scope
	for _, p := range normalize(permissions) {
		i, known := slices.BinarySearchFunc(out, p.Namespace, func(s Scope, namespace string) int { return cmp.Compare(s.Namespace, namespace) })
		if !known {
			out = slices.Insert(out, i, Scope{Namespace: p.Namespace})
		}
		out[i].Permissions = append(out[i].Permissions, p)
	}
	return out
}

// Describe renders permissions as text, one per resource: "create, list and watch secrets".
func Describe(permissions []Permission) []string {
	var out []string
	var verbs []string
	all := normalize(permissions)
	for i, p := range all {
		verbs = append(verbs, p.Verb)
		if i+1 < len(all) && all[i+1].hasSameTarget(p) {
			continue
		}
		p.Verb = joinWords(verbs)
		out, verbs = append(out, p.String()), nil
	}
	return out
}

func (p Permission) hasSameTarget(o Permission) bool {
	p.Verb = o.Verb
	return p == o
}

func joinWords(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// normalize sorts permissions by resource and removes duplicates. A permission is removed
// if another covers it: one for all objects, or in all namespaces.
func normalize(permissions []Permission) []Permission {
	all := map[Permission]bool{}
	for _, p := range permissions {
		all[p] = true
	}
	var out []Permission
	for _, p := range permissions {
		if !p.isCoveredBy(all) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b Permission) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Verb, b.Verb))
	})
	return slices.Compact(out)
}

// Distinct sorts permissions by resource and removes those covered by others.
func Distinct(permissions []Permission) []Permission { return normalize(permissions) }

// isCoveredBy reports whether a wider permission is among them.
func (p Permission) isCoveredBy(all map[Permission]bool) bool {
	everywhere, every, both := p, p, p
	everywhere.Namespace, every.Name, both.Namespace, both.Name = "", "", "", ""
	return slices.ContainsFunc([]Permission{everywhere, every, both}, func(wider Permission) bool { return wider != p && all[wider] })
}
