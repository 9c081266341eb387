package view

import (
	"encoding/json"
	"time"
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
	// Exists is false for what isn't there yet; then only Node, Waits, Ready and
	// Reason are set.
	Exists     bool   `json:"exists"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
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

	// Waits is what the resource waits for before it can be made or changed.
	Waits []Wait `json:"waits,omitempty"`

	// Children come in the order in which they are applied; those that aren't
	// there yet come last.
	Children []Node `json:"children,omitempty"`
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

// JSON is the tree as a document.
func (n Node) JSON() []byte {
	raw, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		panic("view: " + err.Error()) // it holds texts, numbers and times only
	}
	return append(raw, '\n')
}

// Count is how many objects the tree has.
func (n Node) Count() int {
	count := 0
	if n.Exists {
		count = 1
	}
	for _, child := range n.Children {
		count += child.Count()
	}
	return count
}
