package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// NameHeldProblem is the problem of a node when a foreign object has its name and is going to be gone, for the given
// cause. The instance is in the namespace, which is empty for a cluster-scoped one.
func NameHeldProblem(namespace string, holder *unstructured.Unstructured, cause string) Problem {
	of, hidden := inventory.DescribeOwnerIn(namespace, holder)
	blocked := ""
	if !hidden { // else its status is about what the namespace must not know
		blocked = deletionBlockedText(holder)
	}
	return Problem{
		Reason: NameHeld,
		Message: fmt.Sprintf("the name is held by %s of %s, which %s; it is created once that is gone%s",
			object.KeyOf(holder), of, cause, blocked),
	}
}

// TerminatingProblem is the problem of a node with an object that is being deleted.
func TerminatingProblem(o *unstructured.Unstructured) Problem {
	_, name, _ := strings.Cut(object.KeyOf(o).String(), " ")
	return Problem{Reason: ResourceDeleting, Message: fmt.Sprintf("%s resource %q is being deleted; it is recreated once it is gone%s", o.GetKind(),
		name, deletionBlockedText(o))}
}

// WhyTerminating says what blocks the deletion of an object, as the deletion of its instance would
// report it. It is empty if the object is not being deleted, or does not show why it stays.
func WhyTerminating(o *unstructured.Unstructured) string {
	if o.GetDeletionTimestamp() == nil {
		return ""
	}
	blocker, _ := Remaining{}.findBlocker(targetOf(o))
	if blocker.Reason == report.OutOfReach {
		return "" // only time shows that nothing happens
	}
	return blocker.Message
}

func deletionBlockedText(o *unstructured.Unstructured) string {
	if why := WhyTerminating(o); why != "" {
		return ": " + why
	}
	return ""
}
