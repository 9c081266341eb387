package observe

import (
	"slices"
	"strings"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object"
)

// BlockerReport is what blocks the deletion of a tree's root, and the removal of objects that
// are no longer desired. Its JSON is what `espalier blockers -o json` prints: fields may be
// added, and no field changes its meaning or disappears.
type BlockerReport struct {
	Object report.Object `json:"object"`
	// Deleted is the deletion timestamp of the root, if it has one; Deletion is the progress
	// in its status, if there is any.
	Deleted  *time.Time       `json:"deleted,omitempty"`
	Deletion *report.Deletion `json:"deletion,omitempty"`
	// Blockers are the deepest causes; Unlisted counts the blockers that instances count in
	// their status and do not list.
	Blockers []BlockedObject `json:"blockers"`
	Unlisted int64           `json:"unlisted,omitempty"`
	// Removing are objects that nothing wants any more and that are on their way.
	Removing []BlockedObject `json:"going,omitempty"`
	// LeftBehind are the objects that a forced deletion left behind: they may still exist.
	LeftBehind []BlockedObject `json:"leftBehind,omitempty"`

	root Node
}

// BlockedObject is an object that is not gone: where it is, why, and what can be done.
type BlockedObject struct {
	// Path leads from the root to the instance that the object belongs to, as deep as is
	// known.
	Path []report.Object `json:"path"`
	// Node is the id of the object's node in the definition; empty if it has none.
	Node                 string `json:"node,omitempty"`
	report.BlockedObject `json:",inline"`
	// Advice lists what can be done about it; each entry is enough on its own.
	Advice []string `json:"advice,omitempty"`
}

// FindBlockers finds what blocks deletions in a tree, and names for each the deepest cause:
// the object where a person can do something about it.
func FindBlockers(top Node) BlockerReport {
	h := BlockerReport{Object: top.object(), Deleted: top.Deleted, Deletion: top.Deletion, root: top}
	h.Blockers = append([]BlockedObject{}, blockersOf(top, nil)...)
	if foreign := foreignFinalizers(top); top.Deleted != nil && len(foreign) > 0 {
		h.Blockers = append(h.Blockers, blockedByOwnFinalizers(top, foreign))
	}
	h.collectOthers(top, nil)
	return h
}

// collectOthers adds the lists and counts beside the blockers.
func (h *BlockerReport) collectOthers(n Node, above []report.Object) {
	path := append(slices.Clip(above), n.object())
	for _, b := range n.Pruning {
		if !b.Reason.IsBlocker() {
			h.Removing = append(h.Removing, BlockedObject{Path: path, Node: b.Node, BlockedObject: b.BlockedObject})
		}
	}
	if d := n.Deletion; d != nil {
		h.Unlisted += max(d.Blocked-int64(len(d.Blockers)), 0)
		for _, b := range d.LeftBehind {
			h.LeftBehind = append(h.LeftBehind, BlockedObject{Path: path, Node: b.Node, BlockedObject: b.RootCause()})
		}
	}
	for _, child := range n.Children {
		h.collectOthers(child, path)
	}
}

// blockersOf lists what blocks an instance and the instances below it. Where an instance
// waits for another one, the blockers of that one are listed instead; below the tree, the
// cause in the status is.
func blockersOf(n Node, above []report.Object) []BlockedObject {
	path := append(slices.Clip(above), n.object())
	reported, children := reportedBlockers(n), map[object.Key]Node{}
	for _, child := range n.Children {
		children[child.object().Key()] = child
	}
	var out []BlockedObject
	for _, b := range reported {
		key := b.Object.Key()
		if b.Reason == report.ChildBlocked {
			if below := blockersOf(children[key], path); len(below) > 0 {
				out = append(out, below...)
				delete(children, key)
				continue
			}
		}
		out = append(out, newBlockedObject(b, path, n.Deletion != nil && !n.forceDeleteDenied))
	}
	for _, child := range n.Children {
		if key := child.object().Key(); children[key].Exists {
			out = append(out, blockersOf(child, path)...)
			delete(children, key)
		}
	}
	return out
}

// reportedBlockers are the blockers in an instance's status, each once.
func reportedBlockers(n Node) []report.Blocker {
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

func newBlockedObject(b report.Blocker, path []report.Object, releasable bool) BlockedObject {
	out := BlockedObject{Path: path, Node: b.Node, BlockedObject: b.RootCause(), Advice: AdviceOn(b.RootCause())}
	if instance := path[len(path)-1]; releasable && b.Object != instance {
		out.Advice = append(out.Advice, forceDeleteAdvice(b, instance))
	}
	if b.Cause != nil {
		out.Path, out.Node = append(slices.Clip(path), b.Object), ""
	}
	return out
}

// blockedByOwnFinalizers is the root with foreign finalizers, which are in no status.
func blockedByOwnFinalizers(top Node, finalizers []string) BlockedObject {
	if external := top.externalDeletion; external != nil {
		return BlockedObject{Path: []report.Object{}, BlockedObject: *external, Advice: AdviceOn(*external)}
	}
	hold := report.BlockedObject{Object: top.object(), Reason: report.HeldByFinalizer, Since: report.At(*top.Deleted)}
	for _, f := range finalizers {
		hold.Finalizers = append(hold.Finalizers, report.Finalizer{Name: f})
	}
	hold.Message = "held by finalizer " + strings.Join(finalizers, ", ")
	return BlockedObject{Path: []report.Object{}, BlockedObject: hold, Advice: AdviceOn(hold)}
}

// CountBlocking counts the blockers that need an action of a user: the others are in progress.
func (h BlockerReport) CountBlocking() (count int) {
	for _, b := range h.Blockers {
		if !b.InProgress {
			count++
		}
	}
	return count
}

// Remaining says which instances a definition that is being deleted waits for; empty if it waits for none.
func (h BlockerReport) Remaining() string { return h.root.remaining }

// JSON returns the report as a JSON document.
func (h BlockerReport) JSON() []byte { return marshal(h) }
