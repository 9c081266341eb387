package page

import (
	"fmt"
	"slices"
	"time"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/object/diagram"
	"github.com/espalier-dev/espalier/internal/observe"
)

// stateOf is the state of a node in a few words.
func stateOf(n observe.Node) string {
	reason := func(text string) string {
		if n.Reason == "" || n.Reason == text {
			return text
		}
		return text + ": " + n.Reason
	}
	switch {
	case n.Skipped:
		return "left out"
	case n.Deleted != nil && n.Removal != nil && n.Removal.Reason != report.Deleting:
		return "deleting: " + string(n.Removal.Reason)
	case n.Deleted != nil:
		if d := n.Deletion; d != nil && d.Total > 0 {
			return fmt.Sprintf("deleting: %d of %d removed", d.Removed, d.Total)
		}
		return "deleting"
	case n.Removal != nil:
		return "not removed: " + string(n.Removal.Reason)
	case n.Problem != nil:
		return n.Problem.Reason
	case len(n.Waits) > 0:
		return "waits for " + n.Waits[0].On
	case n.Variable:
		return "a known value"
	case n.Unseen:
		return "cannot be read"
	case !n.Exists:
		return reason("does not exist yet")
	case n.Ready == observe.True:
		return "ready"
	case n.Ready == observe.NotReported:
		return "exists; reports no readiness"
	case n.Ready == observe.Unknown:
		return reason("readiness unknown")
	}
	return reason("not ready")
}

// toneOf is the tone of a node: bad only if a person has to act.
func toneOf(n observe.Node, now time.Time) diagram.Tone {
	top := n
	top.Children = nil
	switch {
	case n.Skipped:
		return diagram.Muted
	case observe.Rows(top, now)[0].NeedsAction, n.Deleted != nil && len(actionable(n)) > 0,
		n.IsServing() && n.Ready == observe.False && n.Deleted == nil:
		return diagram.Bad
	case n.Ready == observe.True && n.Deleted == nil:
		return diagram.Good
	case n.Variable && len(n.Waits) == 0, n.Exists && n.Ready == observe.NotReported && n.Deleted == nil:
		return diagram.Neutral
	}
	return diagram.Progress
}

// actionable are the blockers that do not go by themselves.
func actionable(n observe.Node) []observe.BlockedObject {
	return slices.DeleteFunc(observe.FindBlockers(n).Blockers, func(b observe.BlockedObject) bool { return b.InProgress })
}

func shapeOf(n observe.Node) diagram.Shape {
	switch {
	case n.Variable:
		return diagram.Rounded
	case !n.Exists || n.Pruned:
		return diagram.Dashed
	}
	return diagram.Box
}

// resourcesIn counts the objects that can be read, and what is not ready, whether it exists or not.
func resourcesIn(n observe.Node) int {
	count := 0
	if n.Exists && !n.Unseen || isUnready(n) {
		count = 1
	}
	for _, child := range n.Children {
		count += resourcesIn(child)
	}
	return count
}

// isUnready reports whether a resource is not ready; a value that is not known yet is no resource.
func isUnready(n observe.Node) bool {
	return !n.Variable && (n.Ready == observe.False || n.Ready == observe.Unknown || !n.Exists && !n.Skipped && (len(n.Waits) > 0 || n.Problem != nil))
}

func unreadyIn(n observe.Node) int {
	count := 0
	if isUnready(n) {
		count = 1
	}
	for _, child := range n.Children {
		count += unreadyIn(child)
	}
	return count
}

// nodesIn counts the boxes of a tree that is drawn whole.
func nodesIn(n observe.Node) int {
	count := 1
	for _, group := range groupsOf(n.Children) {
		for _, child := range group[:min(len(group), maxItems+1)] {
			count += nodesIn(child)
		}
	}
	return count
}
