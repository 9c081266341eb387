package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/object"
)

// Remaining is what is known of the children that are to go: all of an instance's
// that is being deleted, or those that nothing wants any more. The objects are
// shared with caches and must not be changed.
type Remaining struct {
	Instance *unstructured.Unstructured
	Children []*unstructured.Unstructured
	// Unread are the kinds that may have further children and can't be read now.
	Unread map[schema.GroupVersionKind]Unreadable
	// Forged says that what the instance recorded of its children isn't what was
	// recorded: there may be children of kinds that nobody names.
	Forged bool
	// Released says that another implementation has let the instance go, and its children to
	// the garbage collector: those that aren't being deleted stay until the instance goes.
	Released bool
	// Policy is what was asked for when the instance was deleted.
	Policy report.Policy
	// History is what earlier passes know.
	History DeletionHistory
	// Before is what was told last.
	Before report.Status
	Now    time.Time
	// Uses are the usages of the instance and of its children, and UsesUnknown why they
	// can't be told: then what is marked as in use counts as that.
	Uses        map[object.Key][]usage.Use
	UsesUnknown string

	// leaving are those of the children that are to be deleted.
	leaving []object.Key
}

// told is what the status tells of what isn't going.
func (r Remaining) told() []report.Blocker {
	if r.Before.Deletion != nil {
		return r.Before.Deletion.Blockers
	}
	return r.Before.Pruning
}

// toldOf is what the status tells of an object for a reason.
func (r Remaining) toldOf(b report.Blocker) *report.Blocker {
	told := r.told()
	for i := range told {
		if told[i].Object == b.Object && told[i].Reason == b.Reason {
			return &told[i]
		}
	}
	return nil
}
