package plan

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// isDefinition says whether objects of a kind decide what the controllers do for other instances, and as which
// service account. The controllers may change them, and impersonate these accounts, and who writes a
// composition or a graph without an account may not.
func isDefinition(kind schema.GroupKind) bool {
	switch kind.Group {
	case "apiextensions.crossplane.io", "protection.crossplane.io":
		return true
	case "kro.run": // instances are in this group, too
		return kind.Kind == "ResourceGraphDefinition" || kind.Kind == "ResourceGroup"
	}
	return false
}

// recordProblem is why no instance may consist of objects of a kind; zero if one may.
func recordProblem(kind schema.GroupVersionKind) Problem {
	if why := object.CheckComposable(kind.GroupKind()); why != "" {
		return Problem{Reason: Rejected, Message: why}
	}
	return Problem{}
}
