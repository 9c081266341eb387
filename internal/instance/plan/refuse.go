package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/object"
)

// Refusals are, by the UID of a child, what the server has last answered when a node that
// takes over nothing was to be applied onto it.
type Refusals map[types.UID]Refused

// Refused is that somebody else has set fields to other values than the node wants.
type Refused struct {
	// Wanted is the digest of what was to be applied, and Seen that of the object as it was.
	// While both are the same, the answer would be too.
	Wanted, Seen string
	Problem      Problem
}

// Conflict is the problem of a node that doesn't take over fields which somebody else has
// set, by what is told of them.
func Conflict(o *unstructured.Unstructured, fields []string, by string) Problem {
	text := "fields"
	if len(fields) > 0 {
		text = strings.Join(fields[:min(len(fields), mostPaths)], ", ")
		if more := len(fields) - mostPaths; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return Problem{
		Reason: FieldConflict,
		Message: fmt.Sprintf("%s of %s is set by %s to another value, and conflicts: Refuse leaves the object as it is. It goes on when that is given up or changed; conflicts: Force takes it over",
			text, object.KeyOf(o), by),
	}
}

// Appearance is the digest of what others can see change on an object, but for its status:
// while it is the same, a write that was refused would be refused again.
func Appearance(o *unstructured.Unstructured) string {
	seen := make(map[string]any, len(o.Object))
	for key, value := range o.Object {
		if key != "status" && key != "metadata" {
			seen[key] = value
		}
	}
	annotations := map[string]string{}
	for key, value := range o.GetAnnotations() {
		if key != lastApplied {
			annotations[key] = value
		}
	}
	seen["metadata"] = []any{o.GetUID(), o.GetLabels(), annotations, o.GetFinalizers(), o.GetOwnerReferences()}
	return object.Digest(seen)
}

// lastApplied is kubectl's copy of an object, which caches don't keep.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// refusing turns a write that would be refused again into a wait.
func refusing(step *Step, refusals Refusals) {
	if !step.Refuses || step.Current == nil || !step.Action.Applies() {
		return
	}
	was, ok := refusals[step.Current.GetUID()]
	if ok && was.Wanted == inventory.Applied(step.Object) && was.Seen == Appearance(step.Current) {
		step.Action, step.Problem = Defer, was.Problem
	}
}
