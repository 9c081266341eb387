package observe

import (
	"fmt"

	"github.com/espalier-dev/espalier/internal/instance/report"
)

// Progress is how many of the objects below an instance are gone, of all that
// its deletion began with.
type Progress struct {
	Removed int `json:"removed"`
	Total   int `json:"total"`
	// Percent is Removed of Total, rounded down.
	Percent int `json:"percent"`
}

// Text is the progress of a deletion of the given policy for people.
func (p Progress) Text(policy report.Policy) string {
	if p.Total == 0 {
		return "there is nothing below it"
	}
	return fmt.Sprintf("%d of %d %s (%d%%)", p.Removed, p.Total, removed(policy), p.Percent)
}

// Tally counts the deletion of a whole tree by what is seen of it, look by look:
// each instance below counts with all that is below it, even when it is gone. A
// tally never goes back. The zero Tally has seen nothing.
type Tally struct {
	instances map[string]*tallied
	said      Progress
}

// tallied is what is known of an instance.
type tallied struct {
	there bool
	// parts are the objects that it was ever seen with; true for those that are
	// there.
	parts map[string]bool
	// told says that its status has told of its deletion: of so many objects in
	// all, so many removed, and so many of these before anybody looked.
	told                   bool
	total, removed, before int
}

// See counts what is new in a tree. A tree that is gone is seen by End.
func (t *Tally) See(top Node) Progress {
	for _, i := range t.instances {
		i.there = false
		for part := range i.parts {
			i.parts[part] = false
		}
	}
	t.look(top)
	var sum Progress
	for _, i := range t.instances {
		removed, total := i.count()
		sum.Removed += removed
		sum.Total += total
	}
	return t.say(sum)
}

// End is what there is to say when the tree is gone.
func (t *Tally) End() Progress {
	t.said.Removed, t.said.Percent = t.said.Total, 100
	return t.said
}

// say returns the progress, or what was said already if that is more: an
// instance that is found late adds to the total.
func (t *Tally) say(p Progress) Progress {
	p.Removed = max(p.Removed, t.said.Removed)
	p.Total = max(p.Total, p.Removed)
	if p.Total > 0 {
		p.Percent = p.Removed * 100 / p.Total
	}
	p.Percent = max(p.Percent, t.said.Percent)
	t.said = p
	return p
}

func (t *Tally) look(n Node) {
	if t.instances == nil {
		t.instances = map[string]*tallied{}
	}
	i := t.instances[incarnation(n)]
	if i == nil {
		i = &tallied{parts: map[string]bool{}}
		t.instances[incarnation(n)] = i
	}
	i.there = true
	for _, child := range n.Children {
		if !child.Exists || child.Unseen {
			continue
		}
		i.parts[incarnation(child)] = true
		if child.Instance {
			t.look(child)
		}
	}
	if n.Deletion != nil {
		i.tell(*n.Deletion)
	}
}

// tell takes over what an instance's status tells. Of those that are gone by its
// count, the ones that were never seen were gone before.
func (i *tallied) tell(d report.Deletion) {
	if !i.told {
		i.told, i.before = true, max(min(int(d.Removed), int(d.Total)-len(i.parts)), 0)
	}
	i.total, i.removed = max(i.total, int(d.Total)), max(i.removed, int(d.Removed))
}

func (i *tallied) count() (removed, total int) {
	gone := 0
	for _, there := range i.parts {
		if !there {
			gone++
		}
	}
	total = len(i.parts)
	if i.told {
		total = i.total
	}
	if !i.there {
		return total, total
	}
	return min(total, max(i.removed, i.before+gone)), total
}

// incarnation tells a node's object from all others, former ones of its name
// among them.
func incarnation(n Node) string {
	if n.UID != "" {
		return string(n.UID)
	}
	return n.object().Key().String()
}
