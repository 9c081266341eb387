package observe

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// told is what an instance's status tells of its resources: what they wait for, and what is
// wrong with them.
type told struct {
	order  []string // of the resources, causes before what may follow from them
	waits  map[string][]Wait
	wrongs map[string]*Problem
	seen   map[string]bool
}

func toldOf(instance *unstructured.Unstructured, now time.Time) told {
	t := told{waits: map[string][]Wait{}, wrongs: map[string]*Problem{}, seen: map[string]bool{}}
	for _, p := range report.ReadProblems(instance) {
		t.mention(p.Node)
		t.wrongs[p.Node] = &Problem{Reason: p.Reason, Message: p.Message, Since: p.Since.Time}
	}
	for _, w := range report.ReadWaiting(instance) {
		t.mention(w.Node)
		// The status tells how often it had been tried when it was written, which
		// is a function of the time alone.
		attempts := plan.Wait{Since: w.Since.Time}.Attempts(now)
		t.waits[w.Node] = append(t.waits[w.Node], Wait{On: w.On, Reason: w.Reason, Since: w.Since.Time, Attempts: attempts})
	}
	return t
}

func (t *told) mention(node string) {
	if !slices.Contains(t.order, node) {
		t.order = append(t.order, node)
	}
}

// add adds to the node of an object what is told of its resource.
func (t *told) add(n *Node) {
	id := n.ID()
	t.seen[id] = true
	for _, wait := range t.waits[id] {
		// A wait from before the object was made is over; its end is about to be
		// written.
		if n.Created != nil && wait.Since.After(*n.Created) {
			n.Waits = append(n.Waits, wait)
		}
	}
	if n.Problem = t.wrongs[id]; n.Problem != nil {
		n.Ready, n.Reason = False, n.Problem.Reason
	}
}

// missing are the resources that something is told of and that no object was seen of.
func (t *told) missing() []Node {
	var out []Node
	for _, id := range t.order {
		if t.seen[id] {
			continue
		}
		n := Node{Node: id, Ready: Unsaid, Waits: t.waits[id], Problem: t.wrongs[id]}
		if n.Problem != nil {
			n.Reason, n.Message = n.Problem.Reason, n.Problem.Message
		} else {
			n.Reason = n.Waits[0].Reason
		}
		out = append(out, n)
	}
	return out
}
