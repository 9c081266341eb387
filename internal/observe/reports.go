package observe

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// resourceReports are the waits and problems of an instance's nodes, from its status.
type resourceReports struct {
	order    []string // ids of the nodes, causes before what may follow from them
	waits    map[string][]Wait
	problems map[string]*Problem
	seen     map[string]bool
}

func readResourceReports(instance *unstructured.Unstructured, now time.Time) resourceReports {
	t := resourceReports{waits: map[string][]Wait{}, problems: map[string]*Problem{}, seen: map[string]bool{}}
	for _, p := range report.ReadProblems(instance) {
		t.addID(p.Node)
		t.problems[p.Node] = &Problem{Reason: p.Reason, Message: p.Message, Since: p.Since.Time}
	}
	for _, w := range report.ReadWaiting(instance) {
		t.addID(w.Node)
		// The attempts in the status are those of when it was written. Their number
		// follows from the time alone.
		attempts := plan.Wait{Since: w.Since.Time}.Attempts(now)
		t.waits[w.Node] = append(t.waits[w.Node], Wait{On: w.On, Reason: w.Reason, Since: w.Since.Time, Attempts: attempts})
	}
	return t
}

func (t *resourceReports) addID(node string) {
	if !slices.Contains(t.order, node) {
		t.order = append(t.order, node)
	}
}

// addTo adds to an object's node the waits and the problem of its id.
func (t *resourceReports) addTo(n *Node) {
	id := n.ID()
	t.seen[id] = true
	for _, wait := range t.waits[id] {
		// A wait that began before the object was created is over; the status is
		// about to say so.
		if n.Created != nil && wait.Since.After(*n.Created) {
			n.Waits = append(n.Waits, wait)
		}
	}
	if n.Problem = t.problems[id]; n.Problem != nil {
		n.Ready, n.Reason = False, n.Problem.Reason
	}
}

// missing returns the nodes with a wait or a problem and without an object.
func (t *resourceReports) missing() []Node {
	var out []Node
	for _, id := range t.order {
		if t.seen[id] {
			continue
		}
		n := Node{Node: id, Ready: NotReported, Waits: t.waits[id], Problem: t.problems[id]}
		if n.Problem != nil {
			n.Reason, n.Message = n.Problem.Reason, n.Problem.Message
		} else {
			n.Reason = n.Waits[0].Reason
		}
		out = append(out, n)
	}
	return out
}
