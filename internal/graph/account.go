package graph

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/espalier-dev/espalier/api/v1alpha1"
)

// CheckServiceAccount returns what is wrong with the service account that a definition names; nothing if it can
// exist. The namespace is the definition's, empty for a cluster-scoped one.
func CheckServiceAccount(named v1alpha1.ServiceAccount, namespace string) string {
	switch {
	case named.Name == "":
		return "name is required"
	case namespace == "" && named.Namespace == "":
		return "namespace is required in a cluster-scoped definition"
	case namespace != "" && named.Namespace != "" && named.Namespace != namespace:
		return fmt.Sprintf("is in namespace %s; a definition in namespace %s can only use service accounts of that namespace", named.Namespace, namespace)
	}
	if problems := validation.IsDNS1123Subdomain(named.Name); len(problems) > 0 {
		return fmt.Sprintf("name cannot be %q: %s", named.Name, strings.Join(problems, "; "))
	}
	if problems := validation.IsDNS1123Label(named.Namespace); named.Namespace != "" && len(problems) > 0 {
		return fmt.Sprintf("namespace cannot be %q: %s", named.Namespace, strings.Join(problems, "; "))
	}
	return ""
}
