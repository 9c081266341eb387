package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Explanation is why an object is not ready, or not gone. Its JSON is what `espalier why -o json` prints: fields may
// be added, and no field changes its meaning or disappears.
type Explanation struct {
	Object report.Object `json:"object"`
	Ready  Ready         `json:"ready"`
	// Cause is the deepest cause, in one sentence.
	Cause string `json:"cause"`
	// Chain leads from the object down to the cause.
	Chain []Link `json:"chain"`
	// Advice lists what can be done about the cause; each entry is enough on its own.
	Advice []string `json:"advice,omitempty"`
	// Others are further causes that do not follow from this one, the most important first.
	Others []OtherCause `json:"others,omitempty"`
	// Revision is the revision that composes the instance, and why it is that one; nil for other objects.
	Revision *Revision `json:"revision,omitempty"`
	// Contested are the external resources that are updated again and again, since the external API or another client changes them back.
	// They may be ready all the same.
	Contested []OtherCause `json:"contested,omitempty"`
	// Unsynced are the managed resources that are ready, although their last reconcile failed or is paused.
	Unsynced []OtherCause `json:"unsynced,omitempty"`
	// Skipped are the nodes below the object that are left out, and why.
	Skipped []SkippedNode `json:"skipped,omitempty"`
}

// Link is an object or a node on the way to a cause.
type Link struct {
	// Object is the node's object; nil if it does not exist yet.
	Object *report.Object `json:"object,omitempty"`
	Node   string         `json:"node,omitempty"`
	Reason string         `json:"reason,omitempty"`
	// Message says what is wrong, or what the node waits for.
	Message string     `json:"message,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	// Attempts is how often a wait has been tried, and Next is when it is tried again, unless an event does that earlier.
	Attempts int        `json:"attempts,omitempty"`
	Next     *time.Time `json:"next,omitempty"`
}

// OtherCause is a further cause.
type OtherCause struct {
	Cause  string   `json:"cause"`
	Advice []string `json:"advice,omitempty"`
}

// SkippedNode is a node that is left out.
type SkippedNode struct {
	// Instance is the instance that leaves it out.
	Instance report.Object `json:"instance"`
	Node     string        `json:"node"`
	Because  string        `json:"because"`
}

// Explain finds the deepest cause in a tree. Of several ones, an error goes before what is only missing, then what others
// wait for, then what began first.
func Explain(top Node, now time.Time) Explanation {
	x := explainer{now: now}
	if x.isHindered(top) || x.hinderedBelow(top) {
		x.visit(top, nil)
	}
	return x.explain(top)
}

// ExplainChild is Explain for an object below the top of a tree, with what the status of its instance says of it; false if the tree does
// not have the object.
func ExplainChild(top Node, of report.Object, now time.Time) (Explanation, bool) {
	for i, child := range top.Children {
		if child.Exists && child.object() == of {
			x := explainer{now: now}
			switch {
			case x.isHindered(child):
				x.visitChildren(top, []int{i}, nil)
			case x.hinderedBelow(child):
				x.visit(child, nil)
			}
			return x.explain(child), true
		}
		if e, found := ExplainChild(child, of, now); found {
			return e, true
		}
	}
	return Explanation{}, false
}

// explain is the explanation of a node, by the causes that were found.
func (x explainer) explain(top Node) Explanation {
	now := x.now
	e := Explanation{Object: top.object(), Ready: top.Ready, Chain: []Link{}, Contested: contestedBelow(top, now), Unsynced: unsyncedBelow(top, now),
		Skipped: skippedBelow(top)}
	if top.Ready == True && top.Deleted == nil {
		// It is ready whatever is below it; what is no longer desired may stay nevertheless.
		x.found = slices.DeleteFunc(x.found, func(c cause) bool { return c.node.Removal == nil })
	}
	if len(x.found) == 0 {
		e.Cause = fmt.Sprintf("%s is ready", top.object())
		if top.Ready == NotReported {
			e.Cause = fmt.Sprintf("%s exists; its status does not say whether it is ready", top.object())
		}
		return e
	}
	slices.SortStableFunc(x.found, compareCauses)
	first := x.found[0]
	e.Cause, e.Chain, e.Advice = first.sentence(now), first.chain, first.advice()
	for _, c := range x.found[1:] {
		if other := (OtherCause{c.sentence(now), c.advice()}); other.Cause != e.Cause &&
			!slices.ContainsFunc(e.Others, func(o OtherCause) bool { return o.Cause == other.Cause }) {
			e.Others = append(e.Others, other)
		}
	}
	return e
}

// IsReady reports whether there is nothing to explain.
func (e Explanation) IsReady() bool { return len(e.Chain) == 0 }

// JSON returns the explanation as a JSON document.
func (e Explanation) JSON() []byte { return marshal(e) }

// unsyncedBelow are the managed resources that are ready and not synced: what has changed does not reach the external resource.
func unsyncedBelow(n Node, now time.Time) (out []OtherCause) {
	if c := n.unsynced; c != nil && n.Ready == True && n.Deleted == nil {
		text := n.object().String()
		if c.LastTransitionTime != nil {
			text += ", for " + Age(now.Sub(c.LastTransitionTime.Time))
		}
		text += ": " + c.Reason
		if c.Message != "" {
			text += ": " + c.Message
		}
		out = append(out, OtherCause{text, managedAdvice(n)})
	}
	for _, child := range n.Children {
		out = append(out, unsyncedBelow(child, now)...)
	}
	return out
}

func skippedBelow(n Node) []SkippedNode {
	var out []SkippedNode
	for _, child := range n.Children {
		if child.Skipped {
			out = append(out, SkippedNode{n.object(), child.Node, child.Message})
		}
		out = append(out, skippedBelow(child)...)
	}
	return out
}

// cause is one cause with the way to it.
type cause struct {
	node Node
	// parent is the instance that the node belongs to.
	parent Node
	chain  []Link
	// waiting is how many nodes wait for the cause, one for the other.
	waiting int
	// blocker is set for what keeps an object from being gone.
	blocker *BlockedObject
	// ready is the node that a wait is for, if it exists and is ready.
	ready *Node
}

type explainer struct {
	now   time.Time
	found []cause
}

// isHindered reports whether a node or its object is not as it should be.
func (x explainer) isHindered(n Node) bool {
	switch {
	case n.Skipped, n.isSettledVariable():
		return false
	case n.Deleted != nil, n.Removal != nil, n.Problem != nil, len(n.Waits) > 0, !n.Exists:
		return true
	}
	return n.Ready == False || n.Ready == Unknown
}

func (x explainer) hinderedBelow(n Node) bool { return slices.ContainsFunc(n.Children, x.isHindered) }

func (x explainer) hinderedChildren(n Node) (out []int) {
	for i, child := range n.Children {
		if x.isHindered(child) {
			out = append(out, i)
		}
	}
	return out
}

// visit collects the causes in a tree.
func (x *explainer) visit(n Node, above []Link) {
	chain := append(slices.Clip(above), x.link(n))
	before := len(x.found)
	if n.servedBy != nil {
		x.found = append(x.found, cause{node: *n.servedBy, chain: append(slices.Clip(chain), x.link(*n.servedBy))})
	}
	if n.Deleted != nil {
		x.visitDeletion(n, chain)
	} else {
		x.visitChildren(n, x.hinderedChildren(n), chain)
	}
	if len(x.found) == before || x.hasOwnProblem(n) {
		x.found = append(x.found, cause{node: n, chain: chain})
	}
}

// hasOwnProblem reports whether a node is not ready for a reason that no node below it has: the pipeline of a composite has
// failed, for example, or a definition is invalid.
func (x explainer) hasOwnProblem(n Node) bool {
	switch {
	case n.Deleted == nil && n.composeFailed && n.Ready != True:
		return true
	case n.Deleted != nil || n.Ready != False:
		return false
	}
	isRepeated := slices.ContainsFunc(n.Children, func(child Node) bool { return child.Reason == n.Reason && x.isHindered(child) })
	return plan.Reason(n.Reason).IsError() && !isRepeated && !isExplainedBelow(n) || !n.Instance && len(n.Children) > 0
}

// visitDeletion collects what blocks a deletion.
func (x *explainer) visitDeletion(n Node, chain []Link) {
	blockers := FindBlockers(n).Blockers
	for i := range blockers {
		b := blockers[i]
		way := slices.Clone(chain)
		for _, o := range b.Path {
			if o != n.object() {
				way = append(way, Link{Object: &o, Reason: string(report.Deleting), Message: "is being deleted"})
			}
		}
		if b.Object != n.object() {
			since := b.Since.Time
			way = append(way, Link{Object: &b.Object, Node: b.Node, Reason: string(b.Reason), Message: b.Message, Since: &since})
		}
		x.found = append(x.found, cause{node: n, chain: way, blocker: &b})
	}
}

// visitChildren collects the causes of hindered children, given by their indices. If one only waits for others that are hindered
// themselves, these are the causes.
func (x *explainer) visitChildren(n Node, hindered []int, chain []Link) {
	for _, w := range x.waysToCauses(n, hindered) {
		child, way := n.Children[w.to], slices.Clip(chain)
		for _, i := range w.waiting {
			way = append(way, x.link(n.Children[i]))
		}
		switch {
		case child.Deleted != nil && child.Problem != nil: // its own status says more than the instance's does
			x.visitBelow(n, child, way, w.longest)
		case child.Problem != nil && !x.hinderedBelow(child), child.Removal != nil && child.Deleted == nil:
			x.found = append(x.found, cause{node: child, parent: n, chain: append(way, x.link(child)), waiting: w.longest})
		case len(child.Waits) == 0:
			x.visitBelow(n, child, way, w.longest)
		default:
			x.found = append(x.found, cause{node: child, parent: n, chain: append(way, x.link(child)), waiting: w.longest, ready: x.readyTarget(n, child)})
		}
	}
}

// readyTarget is the last node that a child waits for which exists and is not hindered; nil if there is none.
func (x explainer) readyTarget(n, child Node) *Node {
	for _, i := range slices.Backward(targets(n, child)) {
		if target := n.Children[i]; target.Exists && !x.isHindered(target) && target.ID() != child.ID() {
			return &target
		}
	}
	return nil
}

// wayToCause is a child that hinders others, and the children that wait for it: the first one for the second and so on, and
// the last one for the child.
type wayToCause struct {
	to      int
	waiting []int
	// longest is the number of children on the longest way to it.
	longest int
}

// waysToCauses finds the children that those with the given indices wait for, directly or through others, and that do not wait for
// hindered ones themselves. Each has the shortest way to it from a child that none of them waits for. The time is linear in the number of waits.
func (x explainer) waysToCauses(n Node, hindered []int) []wayToCause {
	const open, done = 1, 2
	state, next := make([]int, len(n.Children)), make([][]int, len(n.Children))
	var order []int // each child after those that it waits for
	var visit func(i int)
	visit = func(i int) {
		state[i] = open
		for _, to := range x.hinderedTargets(n, n.Children[i]) {
			if state[to] == open {
				continue // waits may form a cycle
			}
			next[i] = append(next[i], to)
			if state[to] != done {
				visit(to)
			}
		}
		state[i] = done
		order = append(order, i)
	}
	for _, i := range hindered {
		if state[i] != done {
			visit(i)
		}
	}
	shortest, longest, before := make([]int, len(n.Children)), make([]int, len(n.Children)), make([]int, len(n.Children))
	for _, i := range slices.Backward(order) {
		for _, to := range next[i] {
			longest[to] = max(longest[to], longest[i]+1)
			if shortest[to] == 0 || shortest[i]+1 <= shortest[to] { // of equally long ways, the one that was found first
				shortest[to], before[to] = shortest[i]+1, i
			}
		}
	}
	var out []wayToCause
	for _, to := range order {
		if len(next[to]) > 0 {
			continue
		}
		w := wayToCause{to: to, waiting: make([]int, shortest[to]), longest: longest[to]}
		for i, at := shortest[to]-1, to; i >= 0; i-- {
			at = before[at]
			w.waiting[i] = at
		}
		out = append(out, w)
	}
	return out
}

// hinderedTargets are the hindered children that a child waits for; none if it is hindered by something else.
func (x explainer) hinderedTargets(n, child Node) []int {
	if child.Problem != nil && !x.hinderedBelow(child) || child.Removal != nil && child.Deleted == nil {
		return nil
	}
	return slices.DeleteFunc(targets(n, child), func(i int) bool { return !x.isHindered(n.Children[i]) })
}

// visitBelow visits the object of a child.
func (x *explainer) visitBelow(n, child Node, chain []Link, waiting int) {
	before := len(x.found)
	x.visit(child, chain)
	for i := range x.found[before:] {
		c := &x.found[before+i]
		if c.waiting += waiting; c.parent.Kind == "" {
			c.parent = n
		}
	}
}

// targets are the indices of the nodes beside a child that it waits for, by the names in its waits.
func targets(n, child Node) []int {
	var out []int
	for i, sibling := range n.Children {
		for _, w := range child.Waits {
			rest, ok := strings.CutPrefix(w.On, sibling.Node)
			if sibling.Node != "" && ok && (rest == "" || strings.ContainsRune(".[ ", rune(rest[0]))) {
				out = append(out, i)
				break
			}
		}
	}
	return out
}

// link describes a node on the way to a cause.
func (x explainer) link(n Node) Link {
	l := Link{Node: n.Node, Reason: n.Reason}
	if n.Exists && n.Name != "" {
		o := n.object()
		l.Object = &o
	}
	switch {
	case n.Deleted != nil:
		l.Message, l.Since = "is being deleted", n.Deleted
	case n.Problem != nil:
		l.Reason, l.Message, l.Since = n.Problem.Reason, n.Problem.Message, &n.Problem.Since
	case len(n.Waits) > 0:
		w := n.Waits[0]
		next := x.now.Add(plan.Wait{Since: w.Since}.Next(x.now))
		l.Reason, l.Message, l.Since, l.Attempts, l.Next = w.Reason, "waits for "+waitTargets(n.Waits), &w.Since, w.Attempts, &next
	case n.Removal != nil:
		since := n.Removal.Since.Time
		l.Reason, l.Message, l.Since = string(n.Removal.Reason), n.Removal.Message, &since
	case !n.Instance:
		l.Message = n.Message
	}
	return l
}

// compareCauses orders causes by their importance.
func compareCauses(a, b cause) int {
	if byRank := cmp.Compare(a.rank(), b.rank()); byRank != 0 {
		return byRank
	}
	return cmp.Or(cmp.Compare(b.waiting, a.waiting), a.began().Compare(b.began()))
}

// rank is 0 for what a person has to do something about, 1 for what may end by itself, and 2 for what is only missing.
func (c cause) rank() int {
	reason := plan.Reason(c.reason())
	switch {
	case c.blocker != nil && !c.blocker.InProgress, reason.IsError(), c.node.composeFailed, c.node.IsServing() && c.node.Ready == False && c.node.Deleted == nil:
		return 0
	case len(c.node.Waits) > 0 && c.node.Problem == nil:
		return 2
	}
	return 1
}

func (c cause) reason() string {
	switch {
	case c.node.Problem != nil:
		return c.node.Problem.Reason
	case len(c.node.Waits) > 0:
		return c.node.Waits[0].Reason
	}
	return c.node.Reason
}

// began is since when the cause lasts, as far as that is known.
func (c cause) began() time.Time {
	if last := c.chain[len(c.chain)-1]; last.Since != nil {
		return *last.Since
	}
	if c.node.Created != nil {
		return *c.node.Created
	}
	return time.Time{}
}
