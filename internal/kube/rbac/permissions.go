// Package rbac computes with permissions of role-based access control (RBAC): what is
// needed, what rules grant, and what is missing.
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

// String describes the permission: "list secrets", "get things.example.com named x".
func (n Permission) String() string {
	text := n.Verb + " " + n.resourceArgument()
	if n.Name != "" {
		text += " named " + n.Name
	}
	if n.Namespace != "" {
		text += " in namespace " + n.Namespace
	}
	return text
}

// resourceArgument is the resource as kubectl accepts it.
func (n Permission) resourceArgument() string {
	resource, sub, is := strings.Cut(n.Resource, "/")
	if n.Group != "" {
		resource += "." + n.Group
	}
	if is {
		resource += "/" + sub
	}
	return resource
}

// Missing returns the needed permissions that no rule grants, sorted. The rules apply to
// all namespaces.
func Missing(granted []rbacv1.PolicyRule, needs []Permission) []Permission {
	var out []Permission
	for _, n := range normalize(needs) {
		if !slices.ContainsFunc(granted, n.isGrantedBy) {
			out = append(out, n)
		}
	}
	return out
}

// isGrantedBy says whether a rule grants the permission.
func (n Permission) isGrantedBy(rule rbacv1.PolicyRule) bool {
	return has(rule.Verbs, rbacv1.VerbAll, n.Verb) && has(rule.APIGroups, rbacv1.APIGroupAll, n.Group) &&
		n.isResourceIn(rule.Resources) && (len(rule.ResourceNames) == 0 || n.Name != "" && slices.Contains(rule.ResourceNames, n.Name))
}

// isResourceIn says whether a rule's resources contain the resource: "*" contains all, and
// "*/status" the subresource of all resources.
func (n Permission) isResourceIn(resources []string) bool {
	_, sub, is := strings.Cut(n.Resource, "/")
	return has(resources, rbacv1.ResourceAll, n.Resource) || is && slices.Contains(resources, "*/"+sub)
}

func has(all []string, wildcard, one string) bool {
	return slices.Contains(all, wildcard) || slices.Contains(all, one)
}

// Rules returns the fewest rules that grant the permissions, and nothing else: resources of
// a group that need the same verbs share a rule. It ignores namespaces; see Scopes.
func Rules(needs []Permission) []rbacv1.PolicyRule {
	type subject struct{ group, resource, name, namespace string }
	verbs := map[subject][]string{}
	var subjects []subject
	for _, n := range normalize(needs) {
		s := subject{n.Group, n.Resource, n.Name, n.Namespace}
		if _, known := verbs[s]; !known {
			subjects = append(subjects, s)
		}
		verbs[s] = append(verbs[s], n.Verb)
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
func Scopes(needs []Permission) []Scope {
	var out []Scope
	for _, n := range normalize(needs) {
		i, known := slices.BinarySearchFunc(out, n.Namespace, func(s Scope, namespace string) int { return cmp.Compare(s.Namespace, namespace) })
		if !known {
			out = slices.Insert(out, i, Scope{Namespace: n.Namespace})
		}
		out[i].Permissions = append(out[i].Permissions, n)
	}
	return out
}

// Describe renders permissions as text, one per resource: "create, list and watch secrets".
func Describe(needs []Permission) []string {
	var out []string
	var verbs []string
	all := normalize(needs)
	for i, n := range all {
		verbs = append(verbs, n.Verb)
		if i+1 < len(all) && all[i+1].hasSameTarget(n) {
			continue
		}
		n.Verb = joinWords(verbs)
		out, verbs = append(out, n.String()), nil
	}
	return out
}

func (n Permission) hasSameTarget(o Permission) bool {
	n.Verb = o.Verb
	return n == o
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
func normalize(needs []Permission) []Permission {
	all := map[Permission]bool{}
	for _, n := range needs {
		all[n] = true
	}
	var out []Permission
	for _, n := range needs {
		if !n.isCoveredBy(all) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b Permission) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Verb, b.Verb))
	})
	return slices.Compact(out)
}

// Distinct sorts permissions by resource and removes those that others of them cover.
func Distinct(needs []Permission) []Permission { return normalize(needs) }

// isCoveredBy says whether a wider permission is among them.
func (n Permission) isCoveredBy(all map[Permission]bool) bool {
	everywhere, every, both := n, n, n
	everywhere.Namespace, every.Name, both.Namespace, both.Name = "", "", "", ""
	return slices.ContainsFunc([]Permission{everywhere, every, both}, func(wider Permission) bool { return wider != n && all[wider] })
}
