package plan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// NameHeldBy is the problem of a node whose name is held by an object of somebody
// else's that is on its way, for the given cause.
func NameHeldBy(holder *unstructured.Unstructured, cause string) Problem {
	return Problem{
		Reason: NameHeld,
		Message: fmt.Sprintf("the name is held by %s of %s, which %s; it is made once that is gone%s",
			object.KeyOf(holder), inventory.Whose(holder), cause, keeping(holder)),
	}
}

// BeingDeleted is the problem of a node whose object is on its way.
func BeingDeleted(o *unstructured.Unstructured) Problem {
	_, name, _ := strings.Cut(object.KeyOf(o).String(), " ")
	return Problem{Reason: ResourceDeleting, Message: fmt.Sprintf("%s resource %q is being deleted; it is made anew once it is gone%s", o.GetKind(), name, keeping(o))}
}

// keeping tells what keeps an object that is being deleted, as far as it says so
// itself: the deepest cause that an instance knows, or its finalizers.
func keeping(o *unstructured.Unstructured) string {
	if o.GetDeletionTimestamp() == nil {
		return ""
	}
	nested := report.ReadDeletion(o)
	if !inventory.TellsDeletion(o) {
		nested = nil
	}
	switch {
	case nested != nil && len(nested.Blockers) > 0:
		deepest := nested.Blockers[0].Deepest().Cut()
		return fmt.Sprintf(". It waits for %s: %s: %s", deepest.Object, deepest.Reason, deepest.Message)
	case nested == nil && len(o.GetFinalizers()) > 0:
		return ". It carries finalizers " + strings.Join(o.GetFinalizers(), ", ")
	}
	return ""
}
