package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/inventory"
)

// Removal is the next move in taking an instance apart.
type Removal struct {
	// Delete lists the objects to delete now, side by side.
	Delete []*unstructured.Unstructured
	// Terminating lists those of the same wave that are already on their way.
	Terminating []*unstructured.Unstructured
	// Later counts the objects of later waves.
	Later int
}

// Done says that nothing is left.
func (r Removal) Done() bool { return len(r.Delete)+len(r.Terminating)+r.Later == 0 }

// Remaining counts what is left.
func (r Removal) Remaining() int { return len(r.Delete) + len(r.Terminating) + r.Later }

// Teardown says what to delete next of the children that are left: those that
// were applied last, all of one layer at a time, so that nothing loses what it
// stands on. It needs nothing but the children themselves: no definition, no
// graph, no expressions.
func Teardown(children []*unstructured.Unstructured) Removal {
	var r Removal
	if len(children) == 0 {
		return r
	}
	ordered := slices.SortedFunc(slices.Values(children), deletionOrder)
	wave := inventory.Layer(ordered[0])
	for _, child := range ordered {
		switch {
		case inventory.Layer(child) != wave:
			r.Later++
		case child.GetDeletionTimestamp() != nil:
			r.Terminating = append(r.Terminating, child)
		default:
			r.Delete = append(r.Delete, child)
		}
	}
	return r
}
