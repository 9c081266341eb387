package observe

import (
	"cmp"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Ready is whether an object is ready.
type Ready string

// NotReported is the readiness of an object whose status says nothing about it.
const (
	True        Ready = "True"
	False       Ready = "False"
	Unknown     Ready = "Unknown"
	NotReported Ready = "-"
)

// Node is an object with what is below it, or a node of a definition that does not exist
// yet. Its JSON is what `espalier tree -o json` prints: fields may be added, and no field
// changes its meaning or disappears.
type Node struct {
	// Node is the id of the object's node in the definition.
	Node string `json:"node,omitempty"`
	// Index is the place of an item in its collection, from 0.
	Index *int `json:"index,omitempty"`
	// Exists is false for a node that does not exist yet; then only Node, Waits, Problem,
	// Ready, Reason and Message are set. Skipped is true if it is skipped; Message says why.
	Exists  bool `json:"exists"`
	Skipped bool `json:"skipped,omitempty"`
	// Variable is true for a node that is a value and never exists as an object. The value
	// is known unless the node waits for something or is skipped.
	Variable   bool   `json:"variable,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	// UID distinguishes objects that had the same name one after the other.
	UID types.UID `json:"uid,omitempty"`
	// Instance is true for an instance of a definition.
	Instance bool `json:"instance,omitempty"`
	// Ready is True, False, Unknown, or - where the object's status says nothing.
	Ready   Ready  `json:"ready"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	Created *time.Time `json:"created,omitempty"`
	// Deleted is the deletion timestamp; Finalizers are those that are left then.
	Deleted    *time.Time `json:"deleted,omitempty"`
	Finalizers []string   `json:"finalizers,omitempty"`

	// Deletion is status.deletion of an instance; Pruning is its status.pruning: the objects
	// that are no longer desired.
	Deletion *report.Deletion `json:"deletion,omitempty"`
	Pruning  []report.Blocker `json:"pruning,omitempty"`
	// Removal is why the object is not gone yet, from the status of the instance that it
	// belongs to. Pruned is true if it is no longer desired while that instance stays.
	Removal *report.Blocker `json:"removal,omitempty"`
	Pruned  bool            `json:"pruned,omitempty"`
	// Unseen is true for objects that cannot be read: only their Removal is known. Without
	// a name, the node stands for all objects of the kind.
	Unseen bool `json:"unseen,omitempty"`

	// Waits is what the node waits for before it can be applied.
	Waits []Wait `json:"waits,omitempty"`
	// Problem is why the node could not be applied, from the status of the instance that it
	// belongs to. Reason is then the problem's, and Ready of an object is False.
	Problem *Problem `json:"problem,omitempty"`

	// Children come in the order in which they are applied; those that do not exist yet
	// come last.
	Children []Node `json:"children,omitempty"`

	// externalDeletion is set while only the provider's finalizer keeps a managed resource that is being deleted.
	externalDeletion *report.BlockedObject
	// externalContest is the condition that says that updates of the external resource are changed back.
	externalContest *v1alpha1.Condition

	// definition is the definition or the composition of an instance, as far as the instance names it.
	definition report.Object
	// servedBy is why the object is not reconciled: its definition, which is not served, or the revision of a composition that is not.
	servedBy *Node
	// id is Node or, for an item of a collection, the node's id with the item's index or key.
	id string
	// isManaged is true for a managed resource. unsynced is its condition Synced while that is False, but for a contested one.
	isManaged bool
	unsynced  *v1alpha1.Condition
	// remaining says which instances a definition that is being deleted waits for.
	remaining string
	// paused is true for an object that an annotation pauses.
	paused bool
	// composeFailed is true for a composite whose pipeline fails: what its status says of composed resources is older.
	composeFailed bool
	// orphaned is true if the object outlives its instance.
	orphaned bool
	// forceDeleteDenied is true for an instance whose definition denies that objects are left
	// behind.
	forceDeleteDenied bool
}

// ID identifies the node among its siblings: each item of a collection has its own.
func (n Node) ID() string { return cmp.Or(n.id, n.Node) }

// object names the node's object.
func (n Node) object() report.Object {
	return report.Object{APIVersion: n.APIVersion, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name}
}

// Wait is one thing that a node waits for.
type Wait struct {
	// On names it, such as vpc.status.vpcID.
	On     string    `json:"on"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	// Attempts is how often it has been tried.
	Attempts int `json:"attempts"`
}

// Problem is why a node could not be applied.
type Problem struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
	// Contested is the field that another manager writes again and again, of a problem DriftContested.
	Contested *Contested `json:"contested,omitempty"`
}

// JSON returns the tree as a JSON document.
func (n Node) JSON() []byte { return marshal(n) }

// JSONOf returns several trees as a JSON list.
func JSONOf(trees []Node) []byte { return marshal(trees) }

func marshal(v any) []byte {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic("observe: " + err.Error()) // only texts, numbers and times, which always marshal
	}
	return append(raw, '\n')
}

// Count is the number of objects in the tree that can be read.
func (n Node) Count() int {
	count := 0
	if n.Exists && !n.Unseen {
		count = 1
	}
	for _, child := range n.Children {
		count += child.Count()
	}
	return count
}
