package plan

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
)

// Objects of such a kind decide what the controllers do for other instances, and as which service account. The
// controllers may change them, and impersonate these accounts; the author of a composition or a graph without an
// account is not allowed to.
func isDefinition(kind schema.GroupKind) bool {
	switch kind.Group {
	case "apiextensions.crossplane.io", "protection.crossplane.io":
		return true
	case "kro.run": // instances are in this group, too
		return kind.Kind == "ResourceGraphDefinition" || kind.Kind == "ResourceGroup" || kind.Kind == "Graph"
	}
	return false
}

// It is zero if one may.
func recordProblem(kind schema.GroupVersionKind) Problem {
	if why := object.CheckComposable(kind.GroupKind()); why != "" {
		return Problem{Reason: Rejected, Message: why}
	}
	return Problem{}
}
