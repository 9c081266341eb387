package cloudcontrol

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func calls(namespace string, p priority, n int) []*waiter {
	var out []*waiter
	for range n {
		out = append(out, &waiter{namespace: namespace, priority: p})
	}
	return out
}

func TestNamespacesTakeTurns(t *testing.T) {
	cases := map[string]struct {
		reason  string
		waiting [][]*waiter
		want    []string
	}{
		"one namespace has many calls": {
			"another one's call waits for one of them",
			[][]*waiter{calls("many", reads, 4), calls("few", reads, 1)},
			[]string{"many read", "few read", "many read", "many read", "many read"},
		},
		"one namespace has many writes": {
			"they do not go before the reads of others",
			[][]*waiter{calls("many", writes, 3), calls("few", reads, 2)},
			[]string{"many write", "few read", "many write", "few read", "many write"},
		},
		"cluster-scoped objects": {
			"they have a turn of their own",
			[][]*waiter{calls("many", reads, 3), calls("", reads, 2)},
			[]string{"many read", " read", "many read", " read", "many read"},
		},
		"writes and reads of one namespace": {
			"writes go first, and reads are not delayed without end",
			[][]*waiter{calls("a", reads, 2), calls("a", writes, 5)},
			[]string{"a write", "a write", "a write", "a read", "a write", "a write", "a read"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var all turns
			for _, w := range slices.Concat(c.waiting...) {
				all.push(w)
			}
			var got []string
			for w := all.pop(); w != nil; w = all.pop() {
				got = append(got, w.namespace+" "+w.priority.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: the order is %q", c.reason, got)
			}
		})
	}
}

// TestNoNamespaceWaitsForMoreThanATurnOfEachOther adds, removes and releases calls at random: a namespace whose
// calls begin to wait, or wait on after a call of it, has its turn after at most one call of each other namespace
// that waits then.
func TestNoNamespaceWaitsForMoreThanATurnOfEachOther(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		var all turns
		var waiting []*waiter
		left := map[string]int{} // the calls that a namespace has to wait for at most
		for step := range 400 {
			switch kind := random.IntN(10); {
			case kind < 5:
				w := calls(fmt.Sprint(random.IntN(1+random.IntN(12))), priority(random.IntN(2)), 1)[0]
				if all.index(w.namespace) < 0 {
					left[w.namespace] = len(all.waiting)
				}
				all.push(w)
				waiting = append(waiting, w)
			case kind < 6 && len(waiting) > 0:
				w := waiting[random.IntN(len(waiting))]
				all.remove(w)
				waiting = withoutCall(waiting, w)
			default:
				w := all.pop()
				if (w == nil) != (len(waiting) == 0) {
					t.Fatalf("seed %d, step %d: %d calls wait, and %v is released", seed, step, len(waiting), w)
				}
				if w == nil {
					continue
				}
				for _, other := range all.waiting {
					if other.namespace == w.namespace {
						left[w.namespace] = len(all.waiting) - 1
					} else if left[other.namespace]--; left[other.namespace] < 0 {
						t.Fatalf("seed %d, step %d: namespace %s waits for too many calls", seed, step, other.namespace)
					}
				}
				waiting = withoutCall(waiting, w)
			}
			if all.len() != len(waiting) {
				t.Fatalf("seed %d, step %d: %d of %d calls wait", seed, step, all.len(), len(waiting))
			}
		}
	}
}

func withoutCall(all []*waiter, w *waiter) []*waiter {
	return slices.DeleteFunc(all, func(other *waiter) bool { return other == w })
}
