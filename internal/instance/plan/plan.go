package plan

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/managedfields"
	"github.com/espalier-dev/espalier/internal/object"
)

// Action is what to do with a node's object.
type Action string

// Actions.
const (
	Create  Action = "Create"  // apply; there is none yet
	Update  Action = "Update"  // apply; what is wanted has changed
	Correct Action = "Correct" // apply; somebody else took over a field of ours
	Keep    Action = "Keep"    // nothing to do
	Defer   Action = "Wait"    // something is in the way, Problem says what
	Skip    Action = "Skip"    // the node is left out
)

// Applies says whether the action writes the node's object.
func (a Action) Applies() bool { return a == Create || a == Update || a == Correct }

// Step is what to do with one node, and why.
type Step struct {
	Node   string
	Action Action
	// Object is what to apply, with ownership labels; for applying actions.
	Object *unstructured.Unstructured
	// Current is the object as it is, if it is there.
	Current *unstructured.Unstructured
	// Lost are the fields that a Correct takes back, and Contested those that another
	// manager has kept taking over.
	Lost, Contested []object.Path
	// Drift says which fields that somebody else has changed are left to him, and Omit
	// which of them aren't applied.
	Drift Drift
	Omit  []object.Path
	// Inspect are fields which may have been changed and are to be told: a closer look is
	// needed. Drifted is what is told of such.
	Inspect []object.Path
	Drifted string
	// Adopt allows a Create to take over an object that nobody keeps, and Refuses no
	// write to take over a field that somebody has set.
	Adopt, Refuses bool
	// Recreate says what becomes of the object when the API server rejects its update, and
	// Stays that somebody wants it to be kept.
	Recreate Recreation
	Stays    bool
	// Conceals says that what a server says of the object is not to be told, and External
	// that the object isn't the instance's.
	Conceals, External bool
	// LeftOut is why the node is left out, if a condition says so; for Skip.
	LeftOut *LeftOut
	// Problem is what the node waits for; for Wait.
	Problem Problem
	// Waits are the single things that the problem is made of, if it is.
	Waits []Wait
	// Ready says whether the node's object is there and ready, and Unready why
	// not.
	Ready   bool
	Unready Problem
	// Retry asks for another look after so long; 0 for none.
	Retry time.Duration
}

// Plan is what to do for an instance.
type Plan struct {
	// Steps has one for each node, in topological order.
	Steps []Step
	// Prune lists owned objects that nothing wants any more; the function Prune says
	// how they go. It is empty until everything has been resolved: an object
	// whose node can't be rendered now may be wanted still.
	Prune []*unstructured.Unstructured
	// Policies are what becomes of them, by what the definition and the instance say
	// now.
	Policies inventory.Policies
	// Settled says that there is nothing to apply or to wait for: what is
	// wanted is there, though it may not be ready yet.
	Settled bool
	// Unresolved and Problem are Desired's.
	Unresolved []string
	Problem    Problem
}

// Tolerated holds, by the UID of a child, the digest of the fields that the
// server did not grant ownership of when they were last applied (it prunes what
// a schema doesn't know). They are not drift.
type Tolerated map[types.UID]string

// Compute decides what to do for an instance. It is a pure function: the same
// input gives the same plan.
func Compute(desired Desired, facts Facts, history History, owner inventory.Owner, manager string) Plan {
	p := Plan{Settled: desired.Problem.Reason == "", Unresolved: desired.Unresolved, Problem: desired.Problem}
	wanted := map[types.UID]bool{}
	lasting := lastingOf(desired, facts)
	owner.Unreferred = owner.Unreferred || desired.Unreferred
	for _, node := range desired.Nodes {
		p.Steps = append(p.Steps, decide(node, lasting, facts, history, owner, manager))
	}
	holdRivals(p.Steps, desired.Nodes)
	for i, step := range p.Steps {
		keepWanted(wanted, desired.Nodes[i], step, facts)
		p.Settled = p.Settled && (step.Action == Keep || step.Action == Skip)
	}
	if p.Settled {
		p.Policies = lasting.policies
		p.Prune = prunable(facts, owner, wanted, p.Policies)
	}
	return p
}

// decide says what to do with one node.
func decide(node Node, lasting lasting, facts Facts, history History, owner inventory.Owner, manager string) Step {
	if node.Skipped != "" {
		return Step{Node: node.ID, Action: Skip, LeftOut: node.LeftOut, Problem: Problem{Message: node.Skipped}}
	}
	if blind, ok := facts.UnreadableKind(node.Kind); ok && !node.External {
		return hold(node, blind.Problem)
	}
	if node.Refused.Reason != "" {
		return hold(node, node.Refused)
	}
	if len(node.Waits) > 0 {
		return holdFor(node, facts)
	}
	step := Step{Node: node.ID, Action: Keep, Current: node.Observed, Ready: node.Ready, Unready: node.Unready, Drift: node.Drift, Adopt: node.AdoptUnowned, Refuses: node.Refuses, Recreate: node.Recreate, Conceals: node.Conceals, External: node.External}
	if node.External || node.Variable {
		return step
	}
	if node.Observed != nil && node.Observed.GetDeletionTimestamp() != nil {
		return hold(node, BeingDeleted(node.Observed))
	}
	step.Object = node.Object.DeepCopy()
	at := node.place()
	at.Stays = lasting.object(at, node.Observed)
	step.Stays = at.Stays
	owner.Mark(step.Object, at)
	asApplied := asApplied(step.Object, node, at, owner)
	if problem, ok := facts.Problems[node.ID]; ok {
		held := hold(node, problem)
		held.Object, held.Adopt = step.Object, step.Adopt
		return held
	}
	switch {
	case node.Observed == nil:
		step.Action = Create
	case inventory.Applied(node.Observed) != inventory.Applied(asApplied), managedfields.NeedsTransfer(node.Observed):
		step.Action = Update // what a former engine has applied is transferred first, and goes unless it is wanted
		if node.Drift.Policy == v1alpha1.DriftIgnore {
			step.Omit = step.Ceded(Lost(step.Object, node.Observed, manager))
		}
	default:
		step.drift(asApplied, history, facts, manager)
	}
	refusing(&step, history.Refusals)
	return step
}

// asApplied is what a node wants as it was last applied, if that was the same but for the
// references to the owner: an object that was made before there were any isn't written
// for their sake alone.
func asApplied(wanted *unstructured.Unstructured, node Node, at inventory.Place, owner inventory.Owner) *unstructured.Unstructured {
	if node.Observed == nil || owner.Unreferred || inventory.Applied(node.Observed) == inventory.Applied(wanted) {
		return wanted
	}
	owner.Unreferred = true
	bare := node.Object.DeepCopy()
	owner.Mark(bare, at)
	if inventory.Applied(bare) == inventory.Applied(node.Observed) {
		return bare
	}
	return wanted
}

func hold(node Node, problem Problem) Step {
	return Step{Node: node.ID, Action: Defer, Current: node.Observed, Problem: problem}
}

// holdFor makes one problem of all that a node waits for: the first is told, the
// worst names the reason.
func holdFor(node Node, facts Facts) Step {
	step := hold(node, Problem{})
	texts := make([]string, 0, len(node.Waits))
	for _, w := range node.Waits {
		if since, ok := facts.Waits[w.Key()]; ok {
			w.Since = since
		} else {
			w.Since = facts.Now
		}
		if w.TimedOut(facts.Now) {
			w.Reason = WaitTimeout
		}
		if step.Problem.Reason == "" || (w.Reason.IsError() && !step.Problem.Reason.IsError()) {
			step.Problem.Reason = w.Reason
		}
		step.Waits = append(step.Waits, w)
		texts = append(texts, w.Describe(facts.Now))
	}
	step.Problem.Message = strings.Join(texts, "; ")
	return step
}

// keepWanted notes the objects that a node wants to stay: the one that it
// renders, or, while it can't say which, all that it ever made.
func keepWanted(wanted map[types.UID]bool, node Node, step Step, facts Facts) {
	if step.Action == Skip || node.Variable {
		return // what the id's node made when it was something else is wanted no more
	}
	if step.Object != nil && step.Current != nil {
		wanted[step.Current.GetUID()] = true
		return
	}
	for _, o := range facts.Owned[node.origin()] {
		wanted[o.GetUID()] = true
	}
}

// prunable lists owned objects that no node wants, sorted by name. What no node
// has made, by its labels, was put in the set by hand and is not ours to delete;
// what is to be retained stays.
func prunable(facts Facts, owner inventory.Owner, wanted map[types.UID]bool, policies inventory.Policies) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, owned := range facts.Owned {
		for _, o := range owned {
			if policies.Of(o) == v1alpha1.DeletionRetain {
				continue
			}
			if owner.Owns(o) && inventory.Node(o) != "" && !wanted[o.GetUID()] {
				wanted[o.GetUID()] = true // once, also where it was read in two versions
				out = append(out, o)
			}
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	return out
}
