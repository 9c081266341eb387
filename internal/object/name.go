package object

import (
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NameRule is what an API server asks of the names of a kind's objects. A rule never
// refuses a name that a server may take: where servers differ, it is the wider one.
type NameRule int

// Name rules, from the widest.
const (
	// PathSegment: the name is a part of the object's URL. That is all that is known of a
	// kind that an aggregated API server has.
	PathSegment NameRule = iota
	// Subdomain: names as in DNS, with dots. All custom resources have such.
	Subdomain
	// Label: names as in DNS, without dots.
	Label
)

// Check says why a text can't be a name, without repeating it; empty if it can.
func (r NameRule) Check(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case r == Subdomain && len(validation.IsDNS1123Subdomain(name)) > 0:
		return "it must be at most 253 lower-case letters, digits, '-' and '.', and begin and end with a letter or a digit, also before and after each '.'"
	case r == Label && len(validation.IsDNS1123Label(name)) > 0:
		return "it must be at most 63 lower-case letters, digits and '-', and begin and end with a letter or a digit"
	case len(content.IsPathSegmentName(name)) > 0:
		return "it must not be '.' or '..', and not contain '/' or '%'"
	}
	return ""
}

// CheckNamespace says why a text can't be the name of a namespace; empty if it can.
func CheckNamespace(name string) string { return Label.Check(name) }

// subdomains are the groups of Kubernetes itself whose kinds have names as in DNS, but for those kinds
// that BuiltInNames has rules of their own for.
var subdomains = map[string]bool{
	"": true, "apps": true, "autoscaling": true, "batch": true,
	"admissionregistration.k8s.io": true, "coordination.k8s.io": true, "discovery.k8s.io": true,
	"networking.k8s.io": true, "node.k8s.io": true, "resource.k8s.io": true, "scheduling.k8s.io": true, "storage.k8s.io": true,
}

// BuiltInNames is the rule for the names of a kind that has no CustomResourceDefinition.
func BuiltInNames(gk schema.GroupKind) NameRule {
	switch {
	case gk == schema.GroupKind{Kind: "Namespace"}, gk == schema.GroupKind{Kind: "Service"}:
		return Label
	case gk == schema.GroupKind{Group: "networking.k8s.io", Kind: "IPAddress"}:
		return PathSegment // those of IPv6 have colons
	case subdomains[gk.Group]:
		return Subdomain
	}
	return PathSegment
}
