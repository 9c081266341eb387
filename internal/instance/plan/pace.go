package plan

import (
	"fmt"
	"math/bits"

	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/inventory"
)

// Pace is how the items of a collection follow each other when they are created or changed: in batches, each once the
// items of those before it are up to date and ready.
type Pace struct {
	// Batch is how many items change together; 0 for 1, then another 1, 2, 4 and so on.
	Batch int
	// Default says that the author has set none; then it is the only one. It holds back only what could break: the changes
	// of ready objects that the engine has applied before.
	Default bool
}

func (p Pace) holds(s Step) bool {
	return s.changes() && !s.Moves && (!p.Default || s.Action == Update && s.Ready && inventory.AppliedDigest(s.Current) != "")
}

// reach is how many items may change, or have changed, once the first done items are up to date and ready.
func (p Pace) reach(done int) int {
	if p.Batch > 0 {
		return (done/p.Batch + 1) * p.Batch
	}
	return 1 << bits.Len(uint(done))
}

// changes reports whether the step brings an object that is new or another one. A correction restores one.
func (s Step) changes() bool { return s.Action == Create || s.Action == Update }

// Progress is how far an object is: whether it is ready, and whether it is as desired. One that is changed in this plan is
// neither.
type Progress struct{ Ready, Updated bool }

// holdBack defers the changes that the conditions of their nodes don't allow. For the conditions of later nodes, an object
// that it lets change is neither ready nor updated.
func holdBack(steps []Step, nodes []Node) {
	var progress map[types.UID]Progress
	for i, n := range nodes {
		if n.Hold == nil || !steps[i].changes() {
			continue
		}
		if progress == nil {
			progress = progressOf(steps)
		}
		s := &steps[i]
		if problem, retry := n.Hold(progress); problem.Reason != "" {
			s.Action, s.Problem, s.Retry = Defer, problem, retry
		} else if s.Current != nil {
			progress[s.Current.GetUID()] = Progress{}
		}
	}
}

func progressOf(steps []Step) map[types.UID]Progress {
	out := map[types.UID]Progress{}
	for _, s := range steps {
		if s.Current != nil {
			out[s.Current.GetUID()] = Progress{Ready: s.Ready, Updated: s.Action == Keep || s.Action == Correct || s.Moves || s.External}
		}
	}
	return out
}

// holdToPace defers the changes of items that the paces of their collections don't allow yet. It reports whether there
// are any.
func holdToPace(steps []Step, nodes []Node) bool {
	collections := map[string][]int{}
	for i, n := range nodes {
		if len(n.Paces) > 0 && steps[i].Action != Skip {
			collections[n.origin()] = append(collections[n.origin()], i)
		}
	}
	held := false
	for _, items := range collections {
		done := 0
		for done < len(items) && isDone(steps[items[done]]) {
			done++
		}
		paces, reach := nodes[items[0]].Paces, len(items)
		for _, p := range paces {
			reach = min(reach, p.reach(done))
		}
		for _, i := range items[reach:] {
			if paces[0].holds(steps[i]) {
				held = true
				steps[i].Action, steps[i].Problem = Defer, paces[0].problem(steps[items[done]].Node, reach, len(items))
			}
		}
	}
	return held
}

func (p Pace) problem(first string, reach, items int) Problem {
	message := fmt.Sprintf("waits until %s is up to date and ready: until then, propagateWhen lets %d of %d items change", first, reach, items)
	if p.Default {
		message = fmt.Sprintf("waits until %s is up to date and ready, since a collection with readyWhen changes in batches unless propagateWhen is set", first)
	}
	return Problem{Reason: NotPropagated, Message: message}
}

func isDone(s Step) bool { return (s.Action == Keep || s.Action == Correct || s.Moves) && s.Ready }

// onlyMoves reports whether the object was last applied as it is desired, but for its place in the collection.
func onlyMoves(node Node, place inventory.Place, owner inventory.Owner) bool {
	place.Item = inventory.ItemOf(node.Observed)
	unmoved := node.Object.DeepCopy()
	owner.Mark(unmoved, place)
	return inventory.AppliedDigest(asApplied(unmoved, node, place, owner)) == inventory.AppliedDigest(node.Observed)
}
