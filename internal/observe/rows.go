package observe

import (
	"fmt"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// Row is a node as a line of a table.
type Row struct {
	// Key names the place in the tree: the ids of the resources above and its own.
	// It stays the same when what was waited for appears.
	Key string
	// Branch is the drawing in front of the kind.
	Branch string
	// Kind is the object's kind, or, in brackets, the id of a resource that isn't
	// there yet.
	Kind, Namespace, Name string
	// Full is the name, with the namespace in front where it is another than that of the row
	// above in the tree.
	Full   string
	Ready  Ready
	Reason string
	// Age is how long the object has been there, or waited for.
	Age string
	// Detail says what the row waits for, or why it isn't ready where no row below
	// tells.
	Detail string
	// Exists is false for what isn't there yet, Going says that it is to go, and
	// Troubled that somebody has to do something about it.
	Exists, Going, Troubled bool

	// of names the object above, for what has no name itself.
	of string
	// lasting is Detail without how long it has been so.
	lasting string
	// end is what there is to say when the row is there no longer.
	end string
}

// Rows lists a tree from the top down.
func Rows(n Node, now time.Time) []Row {
	return appendRows(nil, n, Row{}, "", "", "", now)
}

// RowsOf lists several trees, one after the other.
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
		r.of = strings.TrimSpace(above.Kind + " " + above.Name)
	}
	if r.Full = r.Name; r.Namespace != "" && r.Namespace != above.Namespace {
		r.Full = r.Namespace + "/" + r.Name
	}
	if rows = append(rows, r); r.Namespace == "" {
		r.Namespace = above.Namespace // of what is in none, and of resources without an object
	}
	taken := map[string]bool{}
	for i, child := range n.Children {
		below := key + "/" + child.ID()
		if taken[below] {
			below += "=" + child.object().String()
		}
		taken[below] = true
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
		Key: key, Branch: branch, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name, Ready: n.Ready, Reason: Printable(n.Reason),
		Exists: n.Exists, Going: n.Deleted != nil || n.Removal != nil, end: end(n),
	}
	r.Troubled = plan.Reason(n.Reason).IsError() || (n.Removal != nil && n.Removal.Reason.IsBlocker() && !n.Removal.Deepest().InProgress && !blockedBelow(n))
	text, lasting := detail(n, now)
	r.Detail, r.lasting = Printable(text), Printable(lasting)
	switch {
	case n.Created != nil:
		r.Age = Age(now.Sub(*n.Created))
	case n.Problem != nil:
		r.Age = Age(now.Sub(n.Problem.Since))
	case len(n.Waits) > 0:
		r.Age = Age(now.Sub(n.Waits[0].Since))
	}
	if !n.Exists {
		r.Kind = "(" + n.Node + ")"
	}
	return r
}

// detail says why a node isn't where it should be, with and without how long it
// has been so.
func detail(n Node, now time.Time) (text, lasting string) {
	switch {
	case n.Deletion != nil || n.Removal != nil:
		return removalDetail(n, now)
	case n.Deleted != nil && len(n.Finalizers) > 0:
		text = "finalizers " + strings.Join(n.Finalizers, ", ")
	case n.Problem != nil && n.Exists: // its age is another
		lasting = n.Problem.Message
		return fmt.Sprintf("%s (%s)", lasting, Age(now.Sub(n.Problem.Since))), lasting
	case n.Problem != nil:
		return n.Problem.Message, n.Problem.Message
	case len(n.Waits) > 0:
		lasting = waitedFor(n.Waits)
		return lasting + waitedSince(n.Waits[0], now), lasting
	case n.Deleted == nil && !explained(n):
		text = n.Message
		if n.Instance && !plan.Reason(n.Reason).IsError() {
			return text, "" // it tells of times and attempts, and of what rows below tell in a moment
		}
	}
	return text, text
}

// explained says whether rows below say why the node isn't ready. Of an error that is the
// row with this error; other rows may only follow from it. What a status lacks has no row.
func explained(n Node) bool {
	if !n.Instance {
		return false // it is a definition, which isn't made of what is below it
	}
	reason := plan.Reason(n.Reason)
	for _, child := range n.Children {
		switch {
		case child.Skipped, child.settled(), reason == plan.WaitTimeout, reason == plan.ResolutionFailed:
			continue
		case reason.IsError() && child.Reason != n.Reason:
			continue
		case !child.Exists, len(child.Waits) > 0, child.Ready != True && child.Ready != Unsaid:
			return true
		}
	}
	return false
}

// end is what a row's end means.
func end(n Node) string {
	switch {
	case n.Skipped:
		return "no longer left out"
	case n.settled():
		return "no longer in the definition"
	case !n.Exists:
		return "no longer waited for"
	case n.Unseen:
		return "no longer in the way"
	case n.staying:
		return "left in place"
	}
	return "gone"
}

func waitedFor(waits []Wait) string {
	names := make([]string, len(waits))
	for i, w := range waits {
		names[i] = w.On
	}
	return strings.Join(names, ", ")
}

func waitedSince(w Wait, now time.Time) string {
	tries := "attempts"
	if w.Attempts == 1 {
		tries = "attempt"
	}
	return fmt.Sprintf(" (%s, %d %s)", Age(now.Sub(w.Since)), w.Attempts, tries)
}
