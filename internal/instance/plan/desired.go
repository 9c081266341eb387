package plan

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// Desired is what an instance should consist of, as far as its inputs are known.
type Desired struct {
	// Nodes come in topological order.
	Nodes []Node
	// Status holds the author's status fields: the ones that resolve now, and the reported value of fields with a
	// source that could not be read.
	Status map[string]any
	// Unresolved lists the status fields whose expressions have no value for these inputs, and why; a value that is
	// only missing yet doesn't count.
	Unresolved []string
	// Needs are further objects to read; with them, more may resolve.
	Needs []Need
	// Problem is why the desired state isn't known completely: Nodes holds the known part, and
	// nothing is pruned.
	Problem Problem
	// Failure is the error behind Problem if a retry may succeed.
	Failure error
	// Fields are set on the instance itself before any resource is created for it.
	Fields []inventory.Field
	// AuthorConditions returns the author's conditions that replace the dialect's own, given
	// the dialect's; nil if they don't.
	AuthorConditions func(own condition.Set) AuthorConditions
	// Conditions are the author's conditions beside the dialect's own, without times. A
	// condition of another type isn't the author's any more.
	Conditions []v1alpha1.Condition
	// Ready overrides the readiness that follows from the nodes.
	Ready *bool
	// Results are recorded as events.
	Results []Result
	// Kinds are the kinds that nodes have whose kinds are computed, as far as they are known, by the nodes' ids.
	Kinds map[string]schema.GroupVersionKind
	// Exceeded lists the limits of Facts that composing has exceeded. Problem says which, and nothing is changed: no
	// node of the instance is composed without the rest.
	Exceeded []Limit
	// Cost is the CEL cost of Facts with the cost of this composition.
	Cost uint64
	// NoOwnerReferences says that the objects don't refer to the instance as their owner.
	NoOwnerReferences bool
	// Unsettled says that composing again, with Status as the status, gives another answer: it
	// is composed once more before anything is reported.
	Unsettled bool
	// RequeueAfter is after how long composing may give another answer although nothing has
	// changed; 0 for never.
	RequeueAfter time.Duration
}

// AuthorConditions are the conditions that an author defines, evaluated.
type AuthorConditions struct {
	Conditions []v1alpha1.Condition
	// Partial says that some have no value: their reported state stays.
	Partial bool
	// Problems lists those that have no value for these inputs; a value that is only missing
	// yet doesn't count.
	Problems []string
	// Types are the types that the definition names literally.
	Types []string
	// RequeueAfter is after how long they may be others although nothing has changed; 0 for never.
	RequeueAfter time.Duration
}

// Result is an event that the author of an instance's definition has recorded.
type Result struct {
	Warning         bool
	Reason, Message string
	// Claim says that the event is recorded for the instance's claim too.
	Claim bool
}

// Node is the desired state of one node, or of one item of a node that is a collection.
type Node struct {
	// ID names the node in this instance. An item's is inventory.ItemID, or, while its name isn't known, the collection
	// with the item's place: "subnets[#2]".
	ID string
	// Collection is the id of the collection that the node is an item of, and Item its
	// place there; empty and nil for one that is in none.
	Collection string
	Item       *inventory.Item
	Kind       schema.GroupVersionKind
	// Layer is the node's place in the order of application, from 0; deletion is in reverse
	// order.
	Layer int
	// DependsOn, DeleteAfter and OnDelete say when and how the node's object is deleted: see
	// inventory.Place.
	DependsOn, DeleteAfter []string
	OnDelete               v1alpha1.DeletionPolicy
	// External nodes are read. Only one with a Contribution is written.
	External bool
	// Contribution is set if Object is what the node contributes to an external object: Observed, or one that Waits names.
	Contribution *Contribution
	// Variable nodes are values and have no object: Waits says why the value isn't known.
	Variable bool
	// AdoptUnowned lets the node take over an object that has no owner, unless that is a definition: see
	// AdoptsUnowned.
	AdoptUnowned bool
	// AdoptClaimable lets it take over one that has no owner and is marked for that: see
	// inventory.IsClaimable.
	AdoptClaimable bool
	// RefuseConflicts keeps the node from taking over fields that another manager has set, and Drift says what to do
	// about fields that other managers have changed afterwards.
	RefuseConflicts bool
	Drift           Drift
	// Recreate reports whether the object is recreated when the API server rejects its update.
	Recreate Recreation

	// Sensitive says that the object may hold data of a Secret: messages of servers about it
	// are redacted.
	Sensitive bool
	// SecretFields says that names of its fields may come from a Secret: messages do not name
	// its fields.
	SecretFields bool

	// Object is the desired object, without ownership labels; nil if it can't be rendered
	// (Waits says why) or is left out (SkipMessage).
	Object *unstructured.Unstructured
	// Waits is why the node can't be rendered yet.
	Waits []Wait
	// Refusal is why the object is not created at all; zero if it may be.
	Refusal Problem
	// Hold says, given the progress of the instance's objects by UID, why the object is neither created nor changed now, and
	// after how long that may be different although nothing has changed, 0 for never. It is nil if nothing holds the object.
	// Paces are the paces of its collection.
	Hold  func(map[types.UID]Progress) (Problem, time.Duration) `json:"-"`
	Paces []Pace
	// SkipMessage says why the node is left out; empty if it isn't.
	SkipMessage string
	// SkipCause is the condition that leaves the node out, if one does.
	SkipCause *SkipCause

	// Observed is the observed object; nil if there is none.
	Observed *unstructured.Unstructured
	// Ready reports whether Observed is ready; dependents wait until it is.
	Ready bool
	// Unready explains why Observed isn't ready.
	Unready Problem
}

// SkipCause is the condition that leaves a node out.
type SkipCause struct {
	// By is the id of the node with the false condition: the node itself, or one that it depends on.
	By string
	// Condition is the false expression, and Inputs the values that it read, as texts.
	Condition string
	Inputs    []string
}

// String is the condition with its inputs.
func (l SkipCause) String() string {
	text := "includeWhen is false: " + l.Condition
	if len(l.Inputs) > 0 {
		text += " (" + strings.Join(l.Inputs, ", ") + ")"
	}
	return text
}

func (n Node) place() inventory.Place {
	return inventory.Place{Node: n.origin(), Item: n.Item, Layer: n.Layer, DependsOn: n.DependsOn, DeleteAfter: n.DeleteAfter, OnDelete: n.OnDelete}
}

func (n Node) origin() string { return cmp.Or(n.Collection, n.ID) }

// Wait is something that a node waits for.
type Wait struct {
	Node   string
	Reason Reason
	// On names it: "vpc.status.privateSubnet1ID", "vpc".
	On string
	// Detail adds the deepest known cause, or what is wrong with the value.
	Detail string
	// Since is when it was first found missing.
	Since time.Time
	// Timeout and Retries are the author's limits; zero for none.
	Timeout time.Duration
	Retries int
}

// Key identifies the wait across reconciles.
func (w Wait) Key() WaitKey { return WaitKey{Node: w.Node, On: w.On} }

// AdoptsUnowned reports whether the node takes over an object that has no owner. No instance takes over a definition.
func (n Node) AdoptsUnowned() bool { return n.AdoptUnowned && !isDefinition(n.Kind.GroupKind()) }
