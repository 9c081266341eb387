package plan

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// Desired is what an instance wants now, as far as its inputs are known.
type Desired struct {
	// Nodes come in topological order.
	Nodes []Node
	// Status holds the author's status fields: what resolves now, and what was
	// shown before where its source could not be looked at.
	Status map[string]any
	// Unresolved says which status fields have no value for these inputs, other
	// than that something isn't there yet, and why.
	Unresolved []string
	// Needs are further objects to read; with them, more may resolve.
	Needs []Need
	// Problem is why it isn't known what the instance wants, if it isn't: the nodes are
	// what is known of it, and nothing is pruned.
	Problem Problem
	// Failure is what the problem came of, if it may pass when the same is tried again.
	Failure error
	// Fields are what the instance itself is to have before anything is made for it.
	Fields []inventory.Field
	// AuthorConditions gives the author's conditions where they take the place of the dialect's
	// own, given what those are; nil where they don't.
	AuthorConditions func(own condition.Set) AuthorConditions
	// Conditions are the author's, to stand beside the dialect's own; of each the time
	// isn't set. Those of another type than these aren't the author's any more.
	Conditions []v1alpha1.Condition
	// Ready overrules what follows from the nodes.
	Ready *bool
	// Results are what people should be told, as events.
	Results []Result
	// Unreferred says that the objects don't refer to the instance as their owner.
	Unreferred bool
	// Unsettled says that the answer would be another if the status were as it says: it is
	// asked for once more before anything is told.
	Unsettled bool
	// Again is after how long the answer may be another although nothing has changed; 0
	// for never.
	Again time.Duration
}

// AuthorConditions is what an author's conditions say.
type AuthorConditions struct {
	Conditions []v1alpha1.Condition
	// Partial says that some have no value: what was told of them stays as it is.
	Partial bool
	// Problems says which have no value, other than that something isn't there yet.
	Problems []string
	// Types are those that the definition names outright.
	Types []string
}

// Result is something that the author of an instance's definition has people told.
type Result struct {
	Warning         bool
	Reason, Message string
	// Claim says that it is for the users of the instance's claim as well.
	Claim bool
}

// Node is what one node wants, or, of a node that is a collection, one of its items.
type Node struct {
	// ID names the node in this instance. That of an item is inventory.ItemID, or,
	// while its name isn't known, the collection with the item's place: "subnets[#2]".
	ID string
	// Collection is the id of the collection that the node is an item of, and Item its
	// place there; empty and nil for one that is in none.
	Collection string
	Item       *inventory.Item
	Kind       schema.GroupVersionKind
	// Layer is the node's place in the order of application, from 0; deletion
	// goes the other way.
	Layer int
	// DependsOn, DeleteAfter and OnDelete say how the node's object is taken away:
	// see inventory.Place.
	DependsOn, DeleteAfter []string
	OnDelete               v1alpha1.DeletionPolicy
	// External nodes are read and never written.
	External bool
	// Variable nodes are values and have no object: Waits says why others can't go by it.
	Variable bool
	// AdoptUnowned lets the node take over an object that nobody keeps.
	AdoptUnowned bool
	// Refuses keeps the node from taking over fields that somebody has set, and Drift says
	// what becomes of those that somebody has changed since.
	Refuses bool
	Drift   Drift
	// Recreate says what becomes of the object when the API server rejects its update.
	Recreate Recreation

	// Conceals says that the object may hold what a Secret holds: what a server
	// says of it is not to be told.
	Conceals bool

	// Object is what the node's object should be, without ownership labels; nil
	// when it can't be rendered (Waits says why) or is left out (Skipped).
	Object *unstructured.Unstructured
	// Waits is why the node can't be rendered yet.
	Waits []Wait
	// Refused is why the object isn't made, whatever comes, if it isn't.
	Refused Problem
	// Skipped says why the node is left out; empty when it isn't.
	Skipped string
	// LeftOut says which condition it was that left the node out, if it was one.
	LeftOut *LeftOut

	// Observed is the node's object as it is; nil when there is none.
	Observed *unstructured.Unstructured
	// Ready tells whether Observed is ready; only then do dependants go on.
	Ready bool
	// Unready explains why Observed isn't ready.
	Unready Problem
}

// LeftOut is how it came that a node is left out.
type LeftOut struct {
	// By is the id of the node whose condition is false: the node itself, or one that it
	// depends on.
	By string
	// Condition is what is false, and Inputs what it read, as texts.
	Condition string
	Inputs    []string
}

// String is the condition with what it read.
func (l LeftOut) String() string {
	text := "includeWhen is false: " + l.Condition
	if len(l.Inputs) > 0 {
		text += " (" + strings.Join(l.Inputs, ", ") + ")"
	}
	return text
}

// place is what the node's object carries of it.
func (n Node) place() inventory.Place {
	return inventory.Place{Node: n.origin(), Item: n.Item, Layer: n.Layer, DependsOn: n.DependsOn, DeleteAfter: n.DeleteAfter, OnDelete: n.OnDelete}
}

// origin is the id by which the definition knows the node.
func (n Node) origin() string { return cmp.Or(n.Collection, n.ID) }

// Wait is a thing that a node waits for.
type Wait struct {
	Node   string
	Reason Reason
	// On names the thing: "vpc.status.privateSubnet1ID", "vpc".
	On string
	// Detail adds the deepest known cause, or what is wrong with the value.
	Detail string
	// Since is when it was first found missing.
	Since time.Time
	// Timeout and Retries are the author's limits; zero for none.
	Timeout time.Duration
	Retries int
}

// Key names the wait across passes.
func (w Wait) Key() WaitKey { return WaitKey{Node: w.Node, On: w.On} }
