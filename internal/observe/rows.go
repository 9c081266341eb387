package observe

import (
	"fmt"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// Row is a node as a line of a table.
type Row struct {
	// Key is the path in the tree: the ids of the nodes above and its own. It stays the
	// same when the object of a node is created.
	Key string
	// Branch is the drawing in front of the kind.
	Branch string
	// Kind is the object's kind or, in brackets, the id of a node without an object.
	Kind, Namespace, Name string
	// QualifiedName is the name, with the namespace in front if it differs from that of the
	// row above.
	QualifiedName string
	Ready         Ready
	Reason        string
	// Age is the age of the object, or of the wait or the problem.
	Age string
	// Detail is what the node waits for, or why it is not ready where no row below says so.
	Detail string
	// Exists is false for a node without an object, Removing is true for an object that is
	// being removed, and NeedsAction if a person has to act.
	Exists, Removing, NeedsAction bool

	// isDecided is true for a value that is known and for a node that is left out: nothing is to come of it.
	isDecided bool
	// parent names the object above, for rows without a name.
	parent string
	// list has the problems of a definition that does not compile one a line, if there are several.
	list string
	// timelessDetail is Detail without ages.
	timelessDetail string
	// goneText is the text of a change that removes the row.
	goneText string
}

// Rows lists a tree from the top down.
func Rows(n Node, now time.Time) []Row {
	return appendRows(nil, n, Row{}, "", "", "", now)
}

// RowsOf lists several trees from the top down, one after the other.
func RowsOf(trees []Node, now time.Time) []Row {
	var rows []Row
	for _, n := range trees {
		rows = appendRows(rows, n, Row{}, n.object().String(), "", "", now)
	}
	return rows
}

func appendRows(rows []Row, n Node, above Row, key, branch, indent string, now time.Time) []Row {
	r := row(n, key, branch, now)
	if !n.Exists {
		r.parent = strings.TrimSpace(above.Kind + " " + above.Name)
	}
	if r.QualifiedName = r.Name; r.Namespace != "" && r.Namespace != above.Namespace {
		r.QualifiedName = r.Namespace + "/" + r.Name
	}
	if rows = append(rows, r); r.Namespace == "" {
		r.Namespace = above.Namespace // for the comparison in rows below cluster-scoped objects and nodes without an object
	}
	used := map[string]bool{}
	for i, child := range n.Children {
		below := key + "/" + child.ID()
		if used[below] {
			below += "=" + child.object().String()
		}
		used[below] = true
		branch, further := "├─ ", "│  "
		if i == len(n.Children)-1 {
			branch, further = "└─ ", "   "
		}
		rows = appendRows(rows, child, r, below, indent+branch, indent+further, now)
	}
	return rows
}

func row(n Node, key, branch string, now time.Time) Row {
	r := Row{
		Key: key, Branch: branch, Kind: diag.Printable(n.Kind), Namespace: diag.Printable(n.Namespace), Name: diag.Printable(n.Name),
		Ready: Ready(diag.Printable(string(n.Ready))), Reason: Printable(n.Reason),
		isDecided: n.Skipped || n.isSettledVariable(),
		Exists:    n.Exists, Removing: n.Deleted != nil || n.Removal != nil, goneText: goneText(n),
	}
	if problems := n.problems(); len(problems) > 1 {
		r.list = listOf(problems)
	}
	r.NeedsAction = plan.Reason(n.Reason).IsError() || (n.Removal != nil && n.Removal.Reason.IsBlocker() && !n.Removal.RootCause().InProgress &&
		!hasBlockersBelow(n))
	text, timeless := detail(n, now)
	r.Detail, r.timelessDetail = Printable(text), Printable(timeless)
	switch {
	case n.Created != nil:
		r.Age = Age(now.Sub(*n.Created))
	case n.Problem != nil:
		r.Age = Age(now.Sub(n.Problem.Since))
	case len(n.Waits) > 0:
		r.Age = Age(now.Sub(n.Waits[0].Since))
	}
	if !n.Exists {
		r.Kind = "(" + diag.Printable(n.Node) + ")"
	}
	return r
}

// detail is why a node is not ready or not gone, with and without ages.
func detail(n Node, now time.Time) (text, timeless string) {
	switch {
	case n.Deletion != nil || n.Removal != nil:
		return removalDetail(n, now)
	case n.remaining != "":
		text = n.remaining
	case n.externalDeletion != nil:
		text = n.externalDeletion.Message
	case n.Deleted != nil && len(n.Finalizers) > 0:
		text = "finalizers " + strings.Join(n.Finalizers, ", ")
	case n.Problem != nil && n.Exists: // the AGE column shows the object's age
		timeless = n.Problem.Message
		return fmt.Sprintf("%s (%s)", timeless, Age(now.Sub(n.Problem.Since))), timeless
	case n.Problem != nil:
		return n.Problem.Message, n.Problem.Message
	case len(n.Waits) > 0:
		timeless = waitTargets(n.Waits)
		return timeless + waitTime(n.Waits[0], now), timeless
	case n.Deleted == nil && n.isInvalid() && len(n.problems()) > 0:
		text = rowOf(n.problems())
	case n.Deleted == nil && (n.composeFailed || !isExplainedBelow(n)):
		text = n.Message
		if n.Instance && !plan.Reason(n.Reason).IsError() {
			return text, "" // it contains times and attempts, and what rows below will say in a moment
		}
	}
	return text, text
}

// isExplainedBelow reports whether a row below says why the node is not ready. For an error
// this is a row with the same error; other rows may be its consequences. A field that is
// missing in a status has no row.
func isExplainedBelow(n Node) bool {
	if !n.Instance {
		return false // a definition: its readiness does not follow from its instances
	}
	reason := plan.Reason(n.Reason)
	for _, child := range n.Children {
		switch {
		case child.Skipped, child.isSettledVariable(), reason == plan.WaitTimeout, reason == plan.ResolutionFailed:
			continue
		case reason.IsError() && child.Reason != n.Reason:
			continue
		case !child.Exists, len(child.Waits) > 0, child.Ready != True && child.Ready != NotReported:
			return true
		}
	}
	return false
}

// goneText is what the removal of a row means.
func goneText(n Node) string {
	switch {
	case n.Skipped:
		return "no longer skipped"
	case n.isSettledVariable():
		return "no longer in the definition"
	case !n.Exists:
		return "no longer waited for"
	case n.Unseen:
		return "no longer a blocker"
	case n.orphaned:
		return "left in place"
	}
	return "gone"
}

func waitTargets(waits []Wait) string {
	names := make([]string, len(waits))
	for i, w := range waits {
		names[i] = w.On
	}
	return strings.Join(names, ", ")
}

func waitTime(w Wait, now time.Time) string {
	tries := "attempts"
	if w.Attempts == 1 {
		tries = "attempt"
	}
	return fmt.Sprintf(" (%s, %d %s)", Age(now.Sub(w.Since)), w.Attempts, tries)
}
