package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// NameHeldProblem is the problem of a node whose name a foreign object has that is going to be
// gone, for the given cause. The instance is in the namespace, which is empty for a cluster-scoped one.
func NameHeldProblem(namespace string, holder *unstructured.Unstructured, cause string) Problem {
	of, _ := inventory.DescribeOwnerIn(namespace, holder)
	return Problem{
		Reason: NameHeld,
		Message: fmt.Sprintf("the name is held by %s of %s, which %s; it is created once that is gone%s",
			object.KeyOf(holder), of, cause, deletionBlockedText(holder)),
	}
}

// TerminatingProblem is the problem of a node whose object is being deleted.
func TerminatingProblem(o *unstructured.Unstructured) Problem {
	_, name, _ := strings.Cut(object.KeyOf(o).String(), " ")
	return Problem{Reason: ResourceDeleting, Message: fmt.Sprintf("%s resource %q is being deleted; it is recreated once it is gone%s", o.GetKind(), name, deletionBlockedText(o))}
}

// deletionBlockedText says what blocks the deletion of an object, as far as the object shows it:
// the root cause that an instance reports, or the finalizers. It is empty if nothing is known.
func deletionBlockedText(o *unstructured.Unstructured) string {
	if o.GetDeletionTimestamp() == nil {
		return ""
	}
	nested := report.ReadDeletion(o)
	if !inventory.ReportsDeletion(o) {
		nested = nil
	}
	switch {
	case nested != nil && len(nested.Blockers) > 0:
		deepest := nested.Blockers[0].RootCause().Truncated()
		return fmt.Sprintf(". It waits for %s: %s: %s", deepest.Object, deepest.Reason, deepest.Message)
	case nested == nil && len(o.GetFinalizers()) > 0:
		return ". It has finalizers " + strings.Join(o.GetFinalizers(), ", ")
	}
	return ""
}
