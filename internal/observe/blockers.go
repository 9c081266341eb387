package observe

import (
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// Holdup is what holds up the deletion of a tree's top, and the removal of what
// nothing in the tree wants any more. Its JSON is what `espalier blockers -o
// json` prints; fields may be added, and none changes its meaning or goes.
type Holdup struct {
	Object report.Object `json:"object"`
	// Deleted is since when the top is being deleted, if it is, and Deletion how
	// far that has come, if the top's status tells.
	Deleted  *time.Time       `json:"deleted,omitempty"`
	Deletion *report.Deletion `json:"deletion,omitempty"`
	// Blockers are what holds anything up, at the bottom, and Unlisted counts
	// those that instances have and don't list.
	Blockers []Blocked `json:"blockers"`
	Unlisted int64     `json:"unlisted,omitempty"`
	// Going are objects that nothing wants any more and that are on their way.
	Going []Blocked `json:"going,omitempty"`
	// LeftBehind are the blockers that were let go of: they may exist still.
	LeftBehind []Blocked `json:"leftBehind,omitempty"`

	top Node
}

// Blocked is an object that isn't gone: where it is, why, and what can be done.
type Blocked struct {
	// Path leads from the top to the instance that the object is part of, or as
	// deep as is known.
	Path []report.Object `json:"path"`
	// Node is the id of the resource that made the object, if one did.
	Node        string `json:"node,omitempty"`
	report.Hold `json:",inline"`
	// Advice is what can be done about it, each a thing that suffices.
	Advice []string `json:"advice,omitempty"`
}

// HoldupOf finds what holds a tree up, each where somebody can do something
// about it.
func HoldupOf(top Node) Holdup {
	h := Holdup{Object: top.object(), Deleted: top.Deleted, Deletion: top.Deletion, top: top}
	h.Blockers = append([]Blocked{}, blockersOf(top, nil)...)
	if foreign := foreignFinalizers(top); top.Deleted != nil && len(foreign) > 0 {
		h.Blockers = append(h.Blockers, heldItself(top, foreign))
	}
	h.collect(top, nil)
	return h
}

// collect adds what is told beside the blockers.
func (h *Holdup) collect(n Node, above []report.Object) {
	path := append(slices.Clip(above), n.object())
	for _, b := range n.Pruning {
		if !b.Reason.IsBlocker() {
			h.Going = append(h.Going, Blocked{Path: path, Node: b.Node, Hold: b.Hold})
		}
	}
	if d := n.Deletion; d != nil {
		h.Unlisted += max(d.Blocked-int64(len(d.Blockers)), 0)
		for _, b := range d.LeftBehind {
			h.LeftBehind = append(h.LeftBehind, Blocked{Path: path, Node: b.Node, Hold: b.Deepest()})
		}
	}
	for _, child := range n.Children {
		h.collect(child, path)
	}
}

// blockersOf lists what holds up an instance and those below it. One that waits
// for an instance is that one's, as far as the tree reaches; beyond, the cause
// is what the status tells.
func blockersOf(n Node, above []report.Object) []Blocked {
	path := append(slices.Clip(above), n.object())
	said, children := blockersSaid(n), map[object.Key]Node{}
	for _, child := range n.Children {
		children[child.object().Key()] = child
	}
	var out []Blocked
	for _, b := range said {
		key := b.Object.Key()
		if b.Reason == report.ChildBlocked {
			if below := blockersOf(children[key], path); len(below) > 0 {
				out = append(out, below...)
				delete(children, key)
				continue
			}
		}
		out = append(out, blocked(b, path, n.Deletion != nil))
	}
	for _, child := range n.Children {
		if key := child.object().Key(); children[key].Exists {
			out = append(out, blockersOf(child, path)...)
			delete(children, key)
		}
	}
	return out
}

// blockersSaid are the blockers that an instance itself tells of, each once.
func blockersSaid(n Node) []report.Blocker {
	var all []report.Blocker
	if n.Deletion != nil {
		all = append(all, n.Deletion.Blockers...)
	}
	for _, b := range n.Pruning {
		known := slices.ContainsFunc(all, func(other report.Blocker) bool { return other.Object == b.Object })
		if b.Reason.IsBlocker() && !known {
			all = append(all, b)
		}
	}
	return all
}

func blocked(b report.Blocker, path []report.Object, releasable bool) Blocked {
	out := Blocked{Path: path, Node: b.Node, Hold: b.Deepest(), Advice: advice(b.Deepest())}
	if instance := path[len(path)-1]; releasable && b.Object != instance {
		out.Advice = append(out.Advice, letGo(b, instance))
	}
	if b.Cause != nil {
		out.Path, out.Node = append(slices.Clip(path), b.Object), ""
	}
	return out
}

// heldItself is the top with finalizers of others, which no instance tells of.
func heldItself(top Node, finalizers []string) Blocked {
	hold := report.Hold{Object: top.object(), Reason: report.HeldByFinalizer, Since: report.At(*top.Deleted)}
	for _, f := range finalizers {
		hold.Finalizers = append(hold.Finalizers, report.Finalizer{Name: f})
	}
	hold.Message = "held by finalizer " + strings.Join(finalizers, ", ")
	return Blocked{Path: []report.Object{}, Hold: hold, Advice: advice(hold)}
}

// JSON is the holdup as a document.
func (h Holdup) JSON() []byte { return document(h) }
