package observe

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Headline says in a line how far the deletion of a tree's top is.
func Headline(n Node, now time.Time) string {
	name := n.object().String()
	switch {
	case n.Deleted == nil:
		return name + " is not being deleted"
	case n.Deletion == nil:
		return fmt.Sprintf("%s is being deleted, since %s", name, Age(now.Sub(*n.Deleted)))
	}
	return fmt.Sprintf("%s is being deleted: %s, since %s", name, howFar(*n.Deletion), Age(now.Sub(n.Deletion.StartedAt.Time)))
}

// howFar says how far the deletion of an instance has come.
func howFar(d report.Deletion) string {
	text := "nothing to remove"
	if d.Total > 0 {
		text = fmt.Sprintf("%d of %d %s", d.Removed, d.Total, removed(d.Policy))
	}
	if d.Waves > 1 {
		text += fmt.Sprintf(", wave %d of %d", d.Wave, d.Waves)
	}
	if d.Blocked > 0 {
		text += fmt.Sprintf(", %d blocked", d.Blocked)
	}
	return text
}

func removed(p report.Policy) string {
	if p == report.Orphan {
		return "let go of"
	}
	return "removed"
}

// removalDetail says how far a deletion has come, and why an object isn't gone,
// with and without how long it has been so.
func removalDetail(n Node, now time.Time) (text, lasting string) {
	var parts []string
	if n.Deletion != nil {
		parts = append(parts, howFar(*n.Deletion))
		if foreign := foreignFinalizers(n); len(foreign) > 0 && n.Removal == nil {
			parts = append(parts, "finalizers "+strings.Join(foreign, ", "))
		}
	}
	since := ""
	if n.Removal != nil && !blockedBelow(n) {
		cause := n.Removal.Deepest()
		said := cause.Message
		if n.Removal.Cause != nil {
			said = cause.Object.String() + ": " + said
		}
		parts = append(parts, said)
		if !cause.Since.IsZero() {
			since = fmt.Sprintf(" (%s)", Age(now.Sub(cause.Since.Time)))
		}
	}
	lasting = strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "; ")
	return lasting + since, lasting
}

// blockedBelow says whether a row below says what holds an instance up.
func blockedBelow(n Node) bool {
	return n.Removal != nil && n.Removal.Reason == report.ChildBlocked && len(blockersOf(n, nil)) > 0
}

// foreignFinalizers are those that are neither of the engine that removes the
// object's parts nor of the garbage collector that does as much.
func foreignFinalizers(n Node) []string {
	return slices.DeleteFunc(slices.Clone(n.Finalizers), func(f string) bool {
		return inventory.IsFinalizer(f) || f == "orphan" || f == "foregroundDeletion"
	})
}
