package object

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NameRule is what an API server requires of the names of a kind's objects. A rule never
// refuses a name that a server may accept: where servers differ, the rule is the wider one.
type NameRule int

// Name rules, from the widest.
const (
	// PathSegment: the name is a segment of the object's URL. Nothing more is known of
	// kinds of an aggregated API server.
	PathSegment NameRule = iota
	// Subdomain: DNS names with dots, as all custom resources have.
	Subdomain
	// Label: DNS labels, without dots.
	Label
)

// Check says why a text is not a valid name, without quoting it; empty if it is valid.
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

// CheckNamespace says why a text is not a valid namespace name; empty if it is valid.
func CheckNamespace(name string) string { return Label.Check(name) }

// CheckMetadataKey says why a text cannot be the key of a label or an annotation; empty if it can. Keys of annotations may have
// upper-case letters in their prefix.
func CheckMetadataKey(field, key string) string {
	if field == "annotations" {
		key = strings.ToLower(key)
	}
	if len(validation.IsQualifiedName(key)) > 0 {
		return "it must be at most 63 letters, digits, '-', '_' and '.', and begin and end with a letter or a digit, with a domain name and '/' before it if needed"
	}
	return ""
}

// CheckLabelValue says why a text cannot be the value of a label; empty if it can.
func CheckLabelValue(value string) string {
	if len(validation.IsValidLabelValue(value)) > 0 {
		return "it must be empty or at most 63 letters, digits, '-', '_' and '.', and begin and end with a letter or a digit"
	}
	return ""
}

// CheckAPIVersion says why a text cannot be the apiVersion of an object; empty if it can.
func CheckAPIVersion(text string) string {
	gv, err := schema.ParseGroupVersion(text)
	isGroup := gv.Group == "" && !strings.Contains(text, "/") || len(validation.IsDNS1123Subdomain(gv.Group)) == 0
	if err != nil || !isGroup || len(validation.IsDNS1035Label(gv.Version)) > 0 {
		return "it must be a version such as v1, with the name of its group and '/' before it if it has one, as in apps/v1"
	}
	return ""
}

// CheckKind says why a text cannot be the name of a kind; empty if it can.
func CheckKind(text string) string {
	if len(validation.IsDNS1035Label(strings.ToLower(text))) > 0 {
		return "it must be at most 63 letters, digits and '-', begin with a letter, and not end with '-'"
	}
	return ""
}

// The kinds of these built-in groups follow Subdomain, except for the kinds that BuiltInNameRule lists.
var subdomainGroups = map[string]bool{
	"": true, "apps": true, "autoscaling": true, "batch": true,
	"admissionregistration.k8s.io": true, "coordination.k8s.io": true, "discovery.k8s.io": true,
	"networking.k8s.io": true, "node.k8s.io": true, "resource.k8s.io": true, "scheduling.k8s.io": true, "storage.k8s.io": true,
}

// BuiltInNameRule is the name rule of a kind that has no CustomResourceDefinition.
func BuiltInNameRule(gk schema.GroupKind) NameRule {
	switch {
	case gk == schema.GroupKind{Kind: "Namespace"}, gk == schema.GroupKind{Kind: "Service"}:
		return Label
	case gk == schema.GroupKind{Group: "networking.k8s.io", Kind: "IPAddress"}:
		return PathSegment // IPv6 addresses contain colons
	case subdomainGroups[gk.Group]:
		return Subdomain
	}
	return PathSegment
}
