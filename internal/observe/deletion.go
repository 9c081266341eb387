package observe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	pkg "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Headline is one line about the progress of the deletion of a tree's root.
func Headline(n Node, now time.Time) string {
	name := n.object().String()
	switch {
	case n.Deleted == nil:
		return name + " is not being deleted"
	case n.Deletion == nil:
		return fmt.Sprintf("%s is being deleted; started %s ago", name, Age(now.Sub(*n.Deleted)))
	}
	return fmt.Sprintf("%s is being deleted: %s; started %s ago", name, deletionText(*n.Deletion), Age(now.Sub(n.Deletion.StartedAt.Time)))
}

// deletionText is the progress of the deletion of an instance.
func deletionText(d report.Deletion) string {
	text := "nothing to remove"
	if d.Total > 0 {
		text = fmt.Sprintf("%d of %d %s", d.Removed, d.Total, removedVerb(d.Policy))
	}
	if d.Waves > 1 {
		text += fmt.Sprintf(", wave %d of %d", d.Wave, d.Waves)
	}
	blocked, waiting := countBlockers(d)
	if blocked > 0 {
		text += fmt.Sprintf(", %d blocked", blocked)
	}
	if waiting > 0 {
		text += fmt.Sprintf(", %d in progress", waiting)
	}
	return text
}

// countBlockers counts what blocks a deletion, and what only takes its time. Blockers in progress are listed last, so that those
// that are not listed are like the last one.
func countBlockers(d report.Deletion) (blocked, waiting int64) {
	for _, b := range d.Blockers {
		if b.RootCause().InProgress {
			waiting++
		}
	}
	if waiting > 0 {
		waiting += max(d.Blocked-int64(len(d.Blockers)), 0)
	}
	return max(d.Blocked-waiting, 0), waiting
}

func removedVerb(p report.Policy) string {
	if p == report.Orphan {
		return "orphaned"
	}
	return "removed"
}

// removalDetail returns the progress of a deletion and why an object is not gone, with
// and without its age.
func removalDetail(n Node, now time.Time) (text, timeless string) {
	var parts []string
	if n.Deletion != nil {
		parts = append(parts, deletionText(*n.Deletion))
		if foreign := foreignFinalizers(n); len(foreign) > 0 && n.Removal == nil {
			parts = append(parts, "finalizers "+strings.Join(foreign, ", "))
		}
	}
	since := ""
	if n.Removal != nil && !hasBlockersBelow(n) {
		cause := n.Removal.RootCause()
		message := cause.Message
		if n.Removal.Cause != nil {
			message = cause.Object.String() + ": " + message
		}
		parts = append(parts, message)
		if !cause.Since.IsZero() {
			since = fmt.Sprintf(" (%s)", Age(now.Sub(cause.Since.Time)))
		}
	}
	timeless = strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
	return timeless + since, timeless
}

// hasBlockersBelow reports whether a row below names what blocks an instance.
func hasBlockersBelow(n Node) bool {
	return n.Removal != nil && n.Removal.Reason == report.ChildBlocked && len(blockersOf(n, nil)) > 0
}

// foreignFinalizers are the finalizers that belong neither to the engine, which deletes
// the object's children, nor to the garbage collector, which does the same.
func foreignFinalizers(n Node) []string {
	return slices.DeleteFunc(slices.Clone(n.Finalizers), func(f string) bool {
		return inventory.IsFinalizer(f) || f == pkg.Finalizer || f == "orphan" || f == "foregroundDeletion"
	})
}
