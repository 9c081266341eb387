package object

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ownGroups are the API groups with kinds of Espalier and of its providers, besides kro.run, which is the default for kinds of definitions.
var ownGroups = []string{
	"espalier.dev", "internal.kro.run", "aws.espalier.dev", "postgresql.espalier.dev", "sandbox.espalier.dev",
	"apiextensions.crossplane.io", "ops.crossplane.io", "pkg.crossplane.io", "protection.crossplane.io",
}

// CheckComposable says why no instance can consist of objects of a kind; empty if one can. A user who can write the
// controllers' own records has the controllers' permissions: a revision names the account of its content, for example.
func CheckComposable(kind schema.GroupKind) string {
	if kind.Group != "internal.kro.run" && kind.Group != "espalier.dev" {
		return ""
	}
	return fmt.Sprintf("%s objects of %s are records of the controllers, which no instance can consist of", kind.Kind, kind.Group)
}

// IsOwnGroup reports whether an API group is one of Espalier's own. No definition can have its kind there: a writer of
// these groups may be trusted like their installer, and a provider's kind could be blocked by name.
func IsOwnGroup(group string) bool {
	return slices.Contains(ownGroups, group) || strings.HasSuffix(group, ".aws.espalier.dev")
}

// IsKubernetesGroup reports whether an API group belongs to Kubernetes: the groups without a dot, such as apps, and the domains
// k8s.io and kubernetes.io. A CustomResourceDefinition there could hide built-in kinds from all clients.
func IsKubernetesGroup(group string) bool {
	return !strings.Contains(group, ".") || isKubernetesDomain(group)
}

func isKubernetesDomain(domain string) bool {
	return isWithin(domain, "k8s.io") || isWithin(domain, "kubernetes.io")
}

func isWithin(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// GroupProblem is why no definition can have a kind in an API group; empty if it can.
func GroupProblem(group string) string {
	const remedy = "use a group of your own, such as platform.example.com"
	switch {
	case IsOwnGroup(group):
		return fmt.Sprintf("%s is an API group of Espalier itself; %s", group, remedy)
	case IsKubernetesGroup(group):
		return fmt.Sprintf("%q belongs to Kubernetes, as all groups without a dot and those of k8s.io and kubernetes.io; %s", group, remedy)
	}
	return ""
}

// KindAnnotationProblem is why a definition cannot put an annotation on the CustomResourceDefinition of its kind; empty if it
// can. The API server, kubectl and the controllers act on those that are refused.
func KindAnnotationProblem(key string) string {
	domain, _, prefixed := strings.Cut(key, "/")
	switch {
	case !prefixed && !isKubernetesDomain(key): // api-approved.kubernetes.io has no name
		return ""
	case isKubernetesDomain(domain):
		return "annotations of kubernetes.io and k8s.io are reserved for Kubernetes; remove it"
	case isWithin(domain, "kro.run"), isWithin(domain, "espalier.dev"), isWithin(domain, "crossplane.io"):
		return "annotations of this domain are reserved for the controllers; remove it"
	}
	return ""
}
