package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// recordGroups are the groups of the controllers' own records. Whoever writes these has the
// controllers' permissions: a revision names the account of its content, for example.
var recordGroups = map[string]bool{"internal.kro.run": true, "espalier.dev": true}

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
	if !recordGroups[kind.Group] {
		return Problem{}
	}
	return Problem{Reason: Rejected, Message: fmt.Sprintf("%s objects of %s are records of the controllers, which no instance can consist of", kind.Kind, kind.Group)}
}
