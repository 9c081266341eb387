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
	Create  Action = "Create"  // apply; there is no object yet
	Update  Action = "Update"  // apply; the desired object has changed
	Correct Action = "Correct" // apply; another manager took over a field of ours
	Keep    Action = "Keep"    // nothing to do
	Defer   Action = "Wait"    // not possible now, for the reason in Problem
	Skip    Action = "Skip"    // the node is left out

	Contribute Action = "Contribute" // apply the fields of a patch to an external object
)

// Applies reports whether the action writes the node's object.
func (a Action) Applies() bool { return a == Create || a == Update || a == Correct }

// Step is what to do with one node, and why.
type Step struct {
	Node   string
	Action Action
	// Object is what to apply, with ownership labels; for applying actions.
	Object *unstructured.Unstructured
	// Current is the observed object; nil if there is none.
	Current *unstructured.Unstructured
	// LostFields are the fields that a Correct takes back, and ContestedFields those that
	// another manager keeps taking over.
	LostFields, ContestedFields []object.Path
	// Intact says that the object has all fields that were applied: see the type Intact.
	Intact bool
	// Drift says which fields that other managers have changed are left to them, and OmitFields lists the ones that
	// aren't applied.
	Drift      Drift
	OmitFields []object.Path
	// InspectFields are fields that may have drifted and are to be reported: only a request
	// shows whether they have. DriftMessage reports those that have.
	InspectFields []object.Path
	DriftMessage  string
	// AdoptUnowned lets a Create take over an object that has no owner, and AdoptClaimable one
	// that is marked for that as well. RefuseConflicts keeps all writes from taking over fields
	// that another manager has set.
	AdoptUnowned, AdoptClaimable, RefuseConflicts bool
	// Moves says of an Update that only the item's place in its collection has changed. It is set in collections with a pace.
	Moves bool
	// Recreate reports whether the object is recreated when the API server rejects its update. Preserved says that a
	// deletion policy or a protection keeps the object.
	Recreate  Recreation
	Preserved bool
	// Sensitive says that messages of servers about the object are redacted, and External
	// that the object isn't the instance's.
	Sensitive, External bool
	// SecretFields says that messages do not name fields of the object.
	SecretFields bool
	// Contribution is what the step contributes to the external object Current; nil for other steps.
	Contribution *Contribution
	// SkipCause is the condition that leaves the node out, if one does; for Skip.
	SkipCause *SkipCause
	// Problem is what the node waits for; for Defer.
	Problem Problem
	// Waits are the single waits that Problem sums up, if it does.
	Waits []Wait
	// Ready reports whether the node's object exists and is ready, and Unready why it isn't.
	Ready   bool
	Unready Problem
	// Retry is after how long to reconcile again; 0 for never.
	Retry time.Duration
}

// Plan is what to do for an instance.
type Plan struct {
	// Steps has one for each node, in topological order.
	Steps []Step
	// Prune lists owned objects that are no longer desired; the function Prune says how they are deleted. It is empty
	// until everything is resolved: an object of a node that can't be rendered now may still be desired.
	Prune []*unstructured.Unstructured
	// Policies are their deletion policies, by the current definition and instance.
	Policies inventory.Policies
	// Settled says that there is nothing to apply or to wait for: all desired objects exist, though they might not be
	// ready yet.
	Settled bool
	// Paced says that items of a collection wait for others to be up to date and ready.
	Paced bool
	// Unresolved, Problem and Results are Desired's.
	Unresolved []string
	Problem    Problem
	Results    []Result
}

// Ungranted holds, by the UID of a child, the digest of the fields that the API server did not grant ownership of when
// they were last applied: it prunes what a schema doesn't know. They are not drift.
type Ungranted map[types.UID]string

// Compute decides what to do for an instance. It is a pure function: the same
// input gives the same plan.
func Compute(desired Desired, facts Facts, history History, owner inventory.Owner, manager string) Plan {
	p := Plan{Settled: desired.Problem.Reason == "", Unresolved: desired.Unresolved, Problem: desired.Problem, Results: desired.Results}
	wanted := map[types.UID]bool{}
	preserved := preservationOf(desired, facts)
	owner.NoOwnerReferences = owner.NoOwnerReferences || desired.NoOwnerReferences
	for _, node := range desired.Nodes {
		p.Steps = append(p.Steps, decide(node, preserved, facts, history, owner, manager))
	}
	deferDuplicates(p.Steps, desired.Nodes)
	holdBack(p.Steps, desired.Nodes)
	p.Paced = holdToPace(p.Steps, desired.Nodes)
	for i, step := range p.Steps {
		markWanted(wanted, desired.Nodes[i], step, facts)
		p.Settled = p.Settled && (step.Action == Keep || step.Action == Skip)
	}
	if p.Settled {
		p.Policies = preserved.policies
		p.Prune = prunable(facts, owner, wanted, p.Policies)
	}
	return p
}

func decide(node Node, preserved preservation, facts Facts, history History, owner inventory.Owner, manager string) Step {
	if node.SkipMessage != "" {
		return Step{Node: node.ID, Action: Skip, SkipCause: node.SkipCause, Problem: Problem{Message: node.SkipMessage}}
	}
	if unreadable, ok := facts.UnreadableKind(node.Kind); ok && !node.External {
		return deferred(node, unreadable.Problem)
	}
	if node.Refusal.Reason != "" {
		return deferred(node, node.Refusal)
	}
	if problem := recordProblem(node.Kind); problem.Reason != "" && !node.External && !node.Variable {
		return deferred(node, problem)
	}
	if len(node.Waits) > 0 {
		return waiting(node, facts)
	}
	node = node.asStored()
	step := keepStep(node)
	if node.Contribution != nil {
		return contribute(step, node, facts, history, owner)
	}
	if node.External || node.Variable {
		return step
	}
	if node.Observed != nil && node.Observed.GetDeletionTimestamp() != nil {
		return deferred(node, TerminatingProblem(node.Observed))
	}
	if node.Observed != nil && owner.IsOfOtherGraph(node.Observed) {
		return deferred(node, notOwned(NameHolder{Unstructured: node.Observed}, owner, false))
	}
	step.Object = node.Object.DeepCopy()
	place := node.place()
	place.Preserved = preserved.applies(place, node.Observed)
	step.Preserved = place.Preserved
	owner.Mark(step.Object, place)
	applied := asApplied(step.Object, node, place, owner)
	if problem, ok := facts.Problems[node.ID]; ok {
		waits := deferred(node, problem)
		waits.Object, waits.AdoptUnowned, waits.AdoptClaimable = step.Object, step.AdoptUnowned, step.AdoptClaimable
		return waits
	}
	switch {
	case node.Observed == nil:
		step.Action = Create
	case inventory.AppliedDigest(node.Observed) != inventory.AppliedDigest(applied), managedfields.NeedsTransfer(node.Observed, managedfields.IsForeign):
		step.Action = Update // fields of a former engine are transferred first, and so removed unless desired
		step.Moves = len(node.Paces) > 0 && onlyMoves(node, place, owner)
		if node.Drift.Policy == v1alpha1.DriftIgnore {
			step.OmitFields = step.FieldsLeft(LostFields(step.Object, node.Observed, manager))
		}
	default:
		step.handleDrift(applied, history, facts, manager)
	}
	deferRefused(&step, history.Refusals)
	return step
}

func keepStep(node Node) Step {
	return Step{
		Node: node.ID, Action: Keep, Current: node.Observed, Ready: node.Ready, Unready: node.Unready,
		Drift: node.Drift, AdoptUnowned: node.AdoptsUnowned(), AdoptClaimable: node.AdoptClaimable, RefuseConflicts: node.RefuseConflicts, Recreate: node.Recreate,
		Sensitive: node.Sensitive, SecretFields: node.SecretFields, External: node.External,
	}
}

// MayAdopt reports whether the step may take over an object of its name that is not the instance's.
func (s Step) MayAdopt(o *unstructured.Unstructured, owner inventory.Owner) bool {
	return o.GetDeletionTimestamp() == nil && owner.IsUnowned(o) && (s.AdoptUnowned || s.AdoptClaimable && inventory.IsClaimable(o, owner.Key()))
}

// asApplied is the desired object, without owner references if the object was last applied
// without them and is otherwise the same: an object that was created before owner references
// were set isn't written only to add them.
func asApplied(wanted *unstructured.Unstructured, node Node, place inventory.Place, owner inventory.Owner) *unstructured.Unstructured {
	if node.Observed == nil || owner.NoOwnerReferences || inventory.AppliedDigest(node.Observed) == inventory.AppliedDigest(wanted) {
		return wanted
	}
	owner.NoOwnerReferences = true
	bare := node.Object.DeepCopy()
	owner.Mark(bare, place)
	if inventory.AppliedDigest(bare) == inventory.AppliedDigest(node.Observed) {
		return bare
	}
	return wanted
}

func deferred(node Node, problem Problem) Step {
	return Step{Node: node.ID, Action: Defer, Current: node.Observed, Problem: problem}
}

// The node's waits become one problem: the message lists them in order, and the first error among them, or else the
// first, gives the reason.
func waiting(node Node, facts Facts) Step {
	step := deferred(node, Problem{})
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

// These objects are not to be pruned: the one that it renders, or, while it can't be rendered, all that it ever
// created.
func markWanted(wanted map[types.UID]bool, node Node, step Step, facts Facts) {
	if step.Action == Skip || node.Variable || step.Contribution != nil {
		return // objects of an earlier node with this id are no longer desired
	}
	if step.Object != nil && step.Current != nil {
		wanted[step.Current.GetUID()] = true
		return
	}
	for _, o := range facts.Owned[node.origin()] {
		wanted[o.GetUID()] = true
	}
}

// prunable lists, sorted by name, owned objects that no node renders, except those with the policy Retain.
func prunable(facts Facts, owner inventory.Owner, wanted map[types.UID]bool, policies inventory.Policies) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, owned := range facts.Owned {
		for _, o := range owned {
			// Nearly all are wanted: the other conditions take longer.
			if wanted[o.GetUID()] || policies.Of(o) == v1alpha1.DeletionRetain || !owner.Owns(o) || inventory.Node(o) == "" {
				continue
			}
			wanted[o.GetUID()] = true // once, also where it was read in two versions
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b *unstructured.Unstructured) int { return object.KeyOf(a).Compare(object.KeyOf(b)) })
	return out
}
