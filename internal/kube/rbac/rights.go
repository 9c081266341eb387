// Package rbac reckons with what somebody may do and what he needs to: it is pure, and
// knows rights as Kubernetes' role-based access control (RBAC) words them.
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

// Need is one thing that somebody has to be allowed.
type Need struct {
	Verb string
	// Group and Resource say to what; Resource may name a subresource, as "pods/status".
	Group, Resource string
	// Name is of the only object that it is about; empty for all.
	Name string
	// Namespace is the only one in which it is needed; empty for all.
	Namespace string
}

// Of are the needs of several verbs for one resource.
func Of(group, resource string, verbs ...string) []Need {
	out := make([]Need, len(verbs))
	for i, verb := range verbs {
		out[i] = Need{Verb: verb, Group: group, Resource: resource}
	}
	return out
}

// String is a need in words: "list secrets", "get things.example.com named x".
func (n Need) String() string {
	text := n.Verb + " " + n.what()
	if n.Name != "" {
		text += " named " + n.Name
	}
	if n.Namespace != "" {
		text += " in namespace " + n.Namespace
	}
	return text
}

// what is the resource as kubectl takes it.
func (n Need) what() string {
	resource, sub, is := strings.Cut(n.Resource, "/")
	if n.Group != "" {
		resource += "." + n.Group
	}
	if is {
		resource += "/" + sub
	}
	return resource
}

// Missing are the needs that no rule grants, sorted. The rules are granted in all namespaces.
func Missing(granted []rbacv1.PolicyRule, needs []Need) []Need {
	var out []Need
	for _, n := range sorted(needs) {
		if !slices.ContainsFunc(granted, n.by) {
			out = append(out, n)
		}
	}
	return out
}

// by says whether a rule grants it.
func (n Need) by(rule rbacv1.PolicyRule) bool {
	return has(rule.Verbs, rbacv1.VerbAll, n.Verb) && has(rule.APIGroups, rbacv1.APIGroupAll, n.Group) &&
		n.resourceBy(rule.Resources) && (len(rule.ResourceNames) == 0 || n.Name != "" && slices.Contains(rule.ResourceNames, n.Name))
}

// resourceBy says whether one of a rule's resources is the needed one: all are by "*", and
// a subresource is of all resources by "*/status".
func (n Need) resourceBy(resources []string) bool {
	_, sub, is := strings.Cut(n.Resource, "/")
	return has(resources, rbacv1.ResourceAll, n.Resource) || is && slices.Contains(resources, "*/"+sub)
}

func has(all []string, wildcard, one string) bool {
	return slices.Contains(all, wildcard) || slices.Contains(all, one)
}

// Rules are the fewest rules that grant the needs, and nothing else: what is needed of
// several resources of a group in the same way is in one. In which namespaces they are
// needed isn't looked at: see Scopes.
func Rules(needs []Need) []rbacv1.PolicyRule {
	type subject struct{ group, resource, name, namespace string }
	verbs := map[subject][]string{}
	var subjects []subject
	for _, n := range sorted(needs) {
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

// Digest names what some rules grant, in whatever order they come.
func Digest(rules []rbacv1.PolicyRule) string {
	texts := make([]string, len(rules))
	for i, r := range rules {
		texts[i] = object.Digest(r)
	}
	slices.Sort(texts)
	return object.Digest(slices.Compact(texts))
}

// Scope is what is needed in one namespace, or, with none, in all.
type Scope struct {
	Namespace string
	Needs     []Need
}

// Scopes are the needs by the namespaces that they are needed in, all namespaces first.
func Scopes(needs []Need) []Scope {
	var out []Scope
	for _, n := range sorted(needs) {
		i, known := slices.BinarySearchFunc(out, n.Namespace, func(s Scope, namespace string) int { return cmp.Compare(s.Namespace, namespace) })
		if !known {
			out = slices.Insert(out, i, Scope{Namespace: n.Namespace})
		}
		out[i].Needs = append(out[i].Needs, n)
	}
	return out
}

// Texts are needs in words, those of one resource in one: "create, list and watch
// secrets".
func Texts(needs []Need) []string {
	var out []string
	var verbs []string
	all := sorted(needs)
	for i, n := range all {
		verbs = append(verbs, n.Verb)
		if i+1 < len(all) && all[i+1].of(n) {
			continue
		}
		n.Verb = listed(verbs)
		out, verbs = append(out, n.String()), nil
	}
	return out
}

func (n Need) of(o Need) bool {
	n.Verb = o.Verb
	return n == o
}

func listed(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// sorted are the needs by resource, each once. A need of one object is none where all are
// needed, nor is one in a namespace that there is in all.
func sorted(needs []Need) []Need {
	all := map[Need]bool{}
	for _, n := range needs {
		all[n] = true
	}
	var out []Need
	for _, n := range needs {
		if !n.within(all) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b Need) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Verb, b.Verb))
	})
	return slices.Compact(out)
}

// Distinct are the needs by resource, without those that others of them contain.
func Distinct(needs []Need) []Need { return sorted(needs) }

// within says whether one of the needs is a wider one.
func (n Need) within(all map[Need]bool) bool {
	everywhere, every, both := n, n, n
	everywhere.Namespace, every.Name, both.Namespace, both.Name = "", "", "", ""
	return slices.ContainsFunc([]Need{everywhere, every, both}, func(wider Need) bool { return wider != n && all[wider] })
}
