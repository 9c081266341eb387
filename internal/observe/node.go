package observe

import (
	"cmp"
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Ready is whether an object is ready.
type Ready string

// Unsaid is for objects whose status has nothing to tell it by.
const (
	True    Ready = "True"
	False   Ready = "False"
	Unknown Ready = "Unknown"
	Unsaid  Ready = "-"
)

// Node is an object and what is below it, or a resource that isn't there yet.
// Its JSON is what `espalier tree -o json` prints; fields may be added, and none
// changes its meaning or goes.
type Node struct {
	// Node is the id in the definition of the resource that made the object.
	Node string `json:"node,omitempty"`
	// Index is the place of an item in its collection, from 0.
	Index *int `json:"index,omitempty"`
	// Exists is false for what isn't there yet; then only Node, Waits, Problem, Ready,
	// Reason and Message are set. Skipped says that it is left out, which the Message explains.
	Exists  bool `json:"exists"`
	Skipped bool `json:"skipped,omitempty"`
	// Variable says that the resource is a value, which never exists as an object; it is
	// there unless it waits for something or is left out.
	Variable   bool   `json:"variable,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	// UID tells objects apart that had the same name one after the other.
	UID types.UID `json:"uid,omitempty"`
	// Instance says that the object is an instance of a definition.
	Instance bool `json:"instance,omitempty"`
	// Ready is True, False, Unknown, or - where the object doesn't tell.
	Ready   Ready  `json:"ready"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	Created *time.Time `json:"created,omitempty"`
	// Deleted is since when the object is being deleted, and Finalizers what
	// keeps it until then.
	Deleted    *time.Time `json:"deleted,omitempty"`
	Finalizers []string   `json:"finalizers,omitempty"`

	// Deletion is how far an instance that is being deleted has come, as its
	// status tells, and Pruning what of it nothing wants any more.
	Deletion *report.Deletion `json:"deletion,omitempty"`
	Pruning  []report.Blocker `json:"pruning,omitempty"`
	// Removal is why the object isn't gone yet, as the instance tells that it is
	// part of, and Pruned that nothing wants it any more while that stays.
	Removal *report.Blocker `json:"removal,omitempty"`
	Pruned  bool            `json:"pruned,omitempty"`
	// Unseen is for objects that are known by their Removal alone: nobody can look
	// at them. Without a name, it is about all objects of the kind.
	Unseen bool `json:"unseen,omitempty"`

	// Waits is what the resource waits for before it can be made or changed.
	Waits []Wait `json:"waits,omitempty"`
	// Problem is why the resource isn't as it should be, as the instance tells that it is
	// part of. Reason is the problem's then, and an object's Ready is False.
	Problem *Problem `json:"problem,omitempty"`

	// Children come in the order in which they are applied; those that aren't
	// there yet come last.
	Children []Node `json:"children,omitempty"`

	// id is Node, or for an item of a collection what names it alone.
	id string
	// staying says that the object outlives its instance.
	staying bool
}

// ID names the node among its siblings: an item of a collection has one of its own.
func (n Node) ID() string { return cmp.Or(n.id, n.Node) }

// object names what the node is of.
func (n Node) object() report.Object {
	return report.Object{APIVersion: n.APIVersion, Kind: n.Kind, Namespace: n.Namespace, Name: n.Name}
}

// Wait is one thing that a resource waits for.
type Wait struct {
	// On names it, such as vpc.status.vpcID.
	On     string    `json:"on"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	// Attempts is how often it has been tried by now.
	Attempts int `json:"attempts"`
}

// Problem is why a resource isn't as it should be.
type Problem struct {
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// JSON is the tree as a document.
func (n Node) JSON() []byte { return document(n) }

// JSONOf is several trees as a document, which is a list.
func JSONOf(trees []Node) []byte { return document(trees) }

func document(what any) []byte {
	raw, err := json.MarshalIndent(what, "", "  ")
	if err != nil {
		panic("view: " + err.Error()) // it holds texts, numbers and times only
	}
	return append(raw, '\n')
}

// Count is how many objects are seen in the tree.
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
