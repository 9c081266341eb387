package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// Remaining is what is known of the children that are to be deleted: all children of an instance
// that is being deleted, or those that are no longer desired. The objects are shared with caches
// and must not be changed.
type Remaining struct {
	Instance *unstructured.Unstructured
	Children []*unstructured.Unstructured
	// Unreadable are the kinds that may have further children and can't be read now.
	Unreadable map[schema.GroupVersionKind]Unreadable
	// InventoryTampered says that the inventory on the instance isn't the recorded one: there may
	// be children of kinds that it doesn't name.
	InventoryTampered bool
	// ReleasedElsewhere says that another implementation has removed its finalizer and leaves the
	// children to the garbage collector: those that aren't being deleted stay until the instance
	// is gone.
	ReleasedElsewhere bool
	// Defaults are the definition's settings for the deletion of its instances.
	Defaults inventory.Defaults
	// Policy is the propagation policy of the instance's deletion.
	Policy report.Policy
	// History is what earlier reconciles learned.
	History DeletionHistory
	// Reported is the status that was reported last.
	Reported report.Status
	Now      time.Time
	// Usages are the usages of the instance and of its children. UsagesUnreadable is why they
	// can't be read: then an object with the in-use label counts as in use.
	Usages           map[object.Key][]usage.Usage
	UsagesUnreadable string

	// deleting are the children that are to be deleted.
	deleting []object.Key
}

// reportedBlockers are the blockers in the reported status.
func (r Remaining) reportedBlockers() []report.Blocker {
	if r.Reported.Deletion != nil {
		return r.Reported.Deletion.Blockers
	}
	return r.Reported.Pruning
}

// findReported returns the reported blocker of the same object and reason; nil if there is none.
func (r Remaining) findReported(b report.Blocker) *report.Blocker {
	reported := r.reportedBlockers()
	for i := range reported {
		if reported[i].Object == b.Object && reported[i].Reason == b.Reason {
			return &reported[i]
		}
	}
	return nil
}
