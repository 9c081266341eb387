package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// recordGroups are the groups of the controllers' own records. Whoever writes these has the
// controllers' permissions: a revision names the account of its content, for example.
var recordGroups = map[string]bool{"internal.kro.run": true, "espalier.dev": true}

// recordProblem is why no instance may consist of objects of a kind; zero if one may.
func recordProblem(kind schema.GroupVersionKind) Problem {
	if !recordGroups[kind.Group] {
		return Problem{}
	}
	return Problem{Reason: Rejected, Message: fmt.Sprintf("%s objects of %s are records of the controllers, which no instance can consist of", kind.Kind, kind.Group)}
}
