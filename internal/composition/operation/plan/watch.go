package plan

import (
	"cmp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/ops/v1alpha1"
)

// Object is a watched object.
type Object struct {
	Namespace, Name, UID string
	// ResourceVersion is v1alpha1.DeletedResourceVersion for one that is deleted.
	ResourceVersion string
}

func (o Object) revision() uint64 { return Revision(o.ResourceVersion) }

// Revision is a resourceVersion as a number, which grows with each change; 0 if it is not a number.
func Revision(resourceVersion string) uint64 {
	n, _ := strconv.ParseUint(resourceVersion, 10, 64)
	return n
}

// IsSame reports whether two are states of one object.
func (o Object) IsSame(other Object) bool {
	return o.Namespace == other.Namespace && o.Name == other.Name
}

// Watch is what is known of a WatchOperation.
type Watch struct {
	Name string
	Kind schema.GroupVersionKind
	// Handled is the revision up to which operations were made.
	Handled uint64
	// Objects exist. Deleted no longer do, and have no operation for that yet.
	Objects, Deleted []Object
	Policy           v1alpha1.ConcurrencyPolicy
	Operations       []Operation
}

// Change is an operation that is to be made for a change.
type Change struct {
	Object
	// Operation is its name.
	Operation string
	// Replaced are running operations for the object, which are deleted first.
	Replaced []string
}

// maxRunning bounds the operations of a WatchOperation that run at a time. The other changes wait.
const maxRunning = 100

// Next lists the operations to make now, and the number of changes that wait for running ones. Nothing is lost by waiting: each object that
// is newer than Handled is due in its newest state. The order is that of the changes, after deletions, so Handled can be the revision of
// the last operation made.
func (w Watch) Next() (changes []Change, waiting int) {
	due := slices.Clone(w.Deleted)
	live := slices.DeleteFunc(slices.Clone(w.Objects), func(o Object) bool { return o.revision() <= w.Handled })
	slices.SortFunc(live, func(a, b Object) int { return cmp.Compare(a.revision(), b.revision()) })
	due = append(due, live...)
	running := len(Running(w.Operations))
	limit := maxRunning
	if w.Policy == v1alpha1.Forbid {
		limit = 1
	}
	for i, o := range due {
		c := Change{Object: o, Operation: WatchName(w.Name, w.Kind, o)}
		for _, other := range w.Operations {
			if w.Policy == v1alpha1.Replace && other.runs() && other.Watched.IsSame(o) && other.Name != c.Operation {
				c.Replaced = append(c.Replaced, other.Name)
			}
		}
		exists := slices.ContainsFunc(w.Operations, func(other Operation) bool { return other.Name == c.Operation })
		if running -= len(c.Replaced); !exists {
			running++
		}
		if running > limit && !exists {
			return changes, len(due) - i
		}
		changes = append(changes, c)
	}
	return changes, 0
}

// WatchName is the name of the operation for a state of an object.
func WatchName(parent string, kind schema.GroupVersionKind, o Object) string {
	return parent + "-" + shortHash(kind.String(), o.Namespace, o.Name, o.UID, o.ResourceVersion)
}
