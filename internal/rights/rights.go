// Package rights reckons with what somebody may do and what he needs to: it is pure, and
// knows rights as Kubernetes' role-based access control (RBAC) words them.
package rights

import (
	"cmp"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Need is one thing that somebody has to be allowed, in all namespaces.
type Need struct {
	Verb string
	// Group and Resource say to what; Resource may name a subresource, as "pods/status".
	Group, Resource string
	// Name is of the only object that it is about; empty for all.
	Name string
}

// String is a need in words: "list secrets", "get things.example.com named x".
func (n Need) String() string {
	text := n.Verb + " " + n.what()
	if n.Name != "" {
		text += " named " + n.Name
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

// Missing are the needs that no rule grants, sorted.
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
// several resources of a group in the same way is in one.
func Rules(needs []Need) []rbacv1.PolicyRule {
	type subject struct{ group, resource, name string }
	verbs := map[subject][]string{}
	var subjects []subject
	for _, n := range sorted(needs) {
		s := subject{n.Group, n.Resource, n.Name}
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
	return n.Group == o.Group && n.Resource == o.Resource && n.Name == o.Name
}

func listed(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// sorted are the needs by resource, each once. A need of one object is none where all are
// needed.
func sorted(needs []Need) []Need {
	whole := map[Need]bool{}
	for _, n := range needs {
		if n.Name == "" {
			whole[n] = true
		}
	}
	var out []Need
	for _, n := range needs {
		all := n
		all.Name = ""
		if n.Name == "" || !whole[all] {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b Need) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Verb, b.Verb))
	})
	return slices.Compact(out)
}
