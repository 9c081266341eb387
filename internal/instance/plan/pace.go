package plan

import (
	"fmt"
	"math/bits"
)

// Pace is how the items of a collection follow each other when they are created or changed: in batches, each once the
// items of those before it are up to date and ready.
type Pace struct {
	// Batch is how many items change together; 0 for 1, then another 1, 2, 4 and so on.
	Batch int
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

// holdBack defers the changes of items that the paces of their collections don't allow yet. It reports whether there
// are any.
func holdBack(steps []Step, nodes []Node) bool {
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
		reach := len(items)
		for _, p := range nodes[items[0]].Paces {
			reach = min(reach, p.reach(done))
		}
		for _, i := range items[reach:] {
			if steps[i].changes() {
				held = true
				steps[i].Action, steps[i].Problem = Defer, Problem{Reason: NotPropagated, Message: fmt.Sprintf(
					"waits until %s is up to date and ready: until then, propagateWhen lets %d of %d items change", steps[items[done]].Node, reach, len(items))}
			}
		}
	}
	return held
}

func isDone(s Step) bool { return (s.Action == Keep || s.Action == Correct) && s.Ready }
