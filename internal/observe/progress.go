package observe

import (
	"fmt"

	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Progress is how many of the objects below an instance are gone, of those that existed when
// its deletion began.
type Progress struct {
	Removed int `json:"removed"`
	Total   int `json:"total"`
	// Percent is Removed of Total, rounded down.
	Percent int `json:"percent"`
}

// Text is the progress of a deletion with the given policy, for people.
func (p Progress) Text(policy report.Policy) string {
	if p.Total == 0 {
		return "it has no children"
	}
	return fmt.Sprintf("%d of %d %s (%d%%)", p.Removed, p.Total, removedVerb(policy), p.Percent)
}

// ProgressTracker computes the progress of the deletion of a whole tree from its successive
// states: each instance counts with everything below it, also after it is gone. The progress
// never decreases. The zero value is ready to use.
type ProgressTracker struct {
	instances map[string]*instanceProgress
	last      Progress
}

// instanceProgress is the progress of one instance.
type instanceProgress struct {
	exists bool
	// parts are all children that it was ever observed with; true for those that exist.
	parts map[string]bool
	// reported is true once its status had a progress: total and removed are from there.
	// removedBefore counts the children that were gone before the first observation.
	reported                      bool
	total, removed, removedBefore int
}

// Observe takes in a state of the tree and returns the progress. For a tree that is gone,
// call Complete.
func (t *ProgressTracker) Observe(top Node) Progress {
	for _, i := range t.instances {
		i.exists = false
		for part := range i.parts {
			i.parts[part] = false
		}
	}
	t.observeInstance(top)
	var sum Progress
	for _, i := range t.instances {
		removed, total := i.count()
		sum.Removed += removed
		sum.Total += total
	}
	return t.record(sum)
}

// Complete returns the progress once the tree is gone: everything is removed.
func (t *ProgressTracker) Complete() Progress {
	t.last.Removed, t.last.Percent = t.last.Total, 100
	return t.last
}

// record returns the progress, or the last one if that was greater: an instance that is
// found late adds to the total.
func (t *ProgressTracker) record(p Progress) Progress {
	p.Removed = max(p.Removed, t.last.Removed)
	p.Total = max(p.Total, p.Removed)
	if p.Total > 0 {
		p.Percent = p.Removed * 100 / p.Total
	}
	p.Percent = max(p.Percent, t.last.Percent)
	t.last = p
	return p
}

func (t *ProgressTracker) observeInstance(n Node) {
	if t.instances == nil {
		t.instances = map[string]*instanceProgress{}
	}
	i := t.instances[identity(n)]
	if i == nil {
		i = &instanceProgress{parts: map[string]bool{}}
		t.instances[identity(n)] = i
	}
	i.exists = true
	for _, child := range n.Children {
		if !child.Exists || child.Unseen {
			continue
		}
		i.parts[identity(child)] = true
		if child.Instance {
			t.observeInstance(child)
		}
	}
	if n.Deletion != nil {
		i.addStatus(*n.Deletion)
	}
}

// addStatus takes in status.deletion of an instance. Children that it counts as removed and
// that were never observed were gone before the first observation.
func (i *instanceProgress) addStatus(d report.Deletion) {
	if !i.reported {
		i.reported, i.removedBefore = true, max(min(int(d.Removed), int(d.Total)-len(i.parts)), 0)
	}
	i.total, i.removed = max(i.total, int(d.Total)), max(i.removed, int(d.Removed))
}

func (i *instanceProgress) count() (removed, total int) {
	gone := 0
	for _, there := range i.parts {
		if !there {
			gone++
		}
	}
	total = len(i.parts)
	if i.reported {
		total = i.total
	}
	if !i.exists {
		return total, total
	}
	return min(total, max(i.removed, i.removedBefore+gone)), total
}

// identity distinguishes a node's object from all others, also from former objects of the
// same name.
func identity(n Node) string {
	if n.UID != "" {
		return string(n.UID)
	}
	return n.object().Key().String()
}
