package crash

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// The budgets of the design, in writes: an instance with five children in three
// layers is made in one pass.
func TestFiveChildrenInThreeLayersCostOnePass(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	counter := testkit.NewCrash(0)
	stop := run(t, counter.Wrap(config))
	defer stop()
	define(t, w)
	ns := testkit.Namespace(t, config)
	apply("apiVersion: sweep.example.com/v1alpha1\nkind: Chain\nmetadata: {name: warm, namespace: $NS}\nspec: {value: one}\n")(t, w, ns)
	w.AwaitReady(t, kind("Chain"), ns, "warm")

	steps := []struct {
		name   string
		act    func(*testing.T, *testkit.World, string)
		done   func(*testing.T, *testkit.World, string)
		writes int
	}{
		{"created: claim, five children, status", apply(chain), ready(kind("Chain"), "one"), 7},
		{"updated: five children, status", apply(changed), ready(kind("Chain"), "two"), 6},
		{
			"deleted: status, five children, finalizer",
			func(t *testing.T, w *testkit.World, ns string) { w.Delete(t, kind("Chain"), ns, "x") }, gone(kind("Chain")), 7,
		},
	}
	for _, step := range steps {
		before := counter.Writes()
		step.act(t, w, ns)
		step.done(t, w, ns)
		if got := counter.Writes() - before; got != step.writes {
			t.Errorf("%s: %d writes, not %d", step.name, got, step.writes)
		}
	}
}

// TestADeletionCostsAtMostNineRequests counts reads as well. In the foreground it may cost more.
func TestADeletionCostsAtMostNineRequests(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	var counter testkit.Counter
	defer run(t, counter.Wrap(config))()
	define(t, w)
	for i, policy := range []metav1.DeletionPropagation{
		metav1.DeletePropagationForeground, // seen through, and not counted: the garbage collector learns of a new kind in its own time
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	} {
		testkit.Measured(t, fmt.Sprintf("%d %s", i, policy), func(t *testing.T) (excess string) {
			ns := testkit.Namespace(t, config)
			apply(chain)(t, w, ns)
			ready(kind("Chain"), "one")(t, w, ns)
			before := counter.Now()
			remove(kind("Chain"), policy)(t, w, ns)
			gone(kind("Chain"))(t, w, ns)
			cost := counter.Since(before)
			if i == 0 {
				return ""
			}
			testkit.Say(t, "costs: %s deletion of five children in three layers: %d requests (%s)", policy, cost.Total, cost)
			most := 9
			if policy == metav1.DeletePropagationForeground {
				most += 2 * 5 // the collector takes their references off meanwhile: what has changed is looked at and asked to go once more
			}
			if cost.Total > most {
				return fmt.Sprintf("%s: %d requests (%s)", policy, cost.Total, cost)
			}
			return ""
		})
	}
}

// TestACompositeOfFiveCostsAtMostNineRequests counts what composites cost while they are made,
// changed, left alone and deleted by each policy.
func TestACompositeOfFiveCostsAtMostNineRequests(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	ns := ""
	counter := testkit.Counter{Counts: func(r *http.Request) bool { return !isOfOthers(r.URL.Path, ns) }}
	defer run(t, counter.Wrap(config))()
	define(t, w)
	for i, policy := range []metav1.DeletionPropagation{
		metav1.DeletePropagationForeground, // seen through, and not counted: kinds are only just known
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	} {
		testkit.Measured(t, fmt.Sprintf("%d %s", i, policy), func(t *testing.T) (excess string) {
			ns = testkit.Namespace(t, config)
			measure := func(what string, most int, do ...func(*testing.T, *testkit.World, string)) {
				before := counter.Now()
				for _, do := range do {
					do(t, w, ns)
				}
				cost := counter.Since(before)
				if i == 0 {
					return
				}
				testkit.Say(t, "costs: a composite of five, %s: %d requests (%s)", what, cost.Total, cost)
				if cost.Total > most {
					excess += fmt.Sprintf("%s: %d requests (%s), more than %d; ", what, cost.Total, cost, most)
				}
			}
			measure("made", 9, apply(five), composed("one", 5, 0))
			measure("changed", 7, apply(fiveAgain), composed("two", 5, 0))
			measure("at rest for a second", 0, func(*testing.T, *testkit.World, string) { <-time.After(time.Second) })
			most := 9
			if policy == metav1.DeletePropagationForeground {
				most += 2 * 5 // as for graphs
			}
			measure("deleted, "+string(policy), most, remove(kind("Five"), policy), gone(kind("Five")))
			return excess
		})
	}
}

// idle is for how long nothing may happen. That nothing does is told by nobody,
// and so it takes a clock.
const idle = 3 * time.Second

// TestWhatIsBlockedCostsNothing counts what is asked of the API server while
// deletions, and a prune, wait for a finalizer that nobody takes off, or for
// protection that stays.
func TestWhatIsBlockedCostsNothing(t *testing.T) {
	config := testkit.Exclusive(t)
	w := testkit.NewWorld(t, config)
	everywhere := map[string]string{}
	for _, name := range []string{"deleted", "nested", "pruned", "protected"} {
		everywhere[name] = testkit.Namespace(t, config)
	}
	// Namespaces of other tests may just be going, with what is in them.
	counter := testkit.Counter{Counts: func(r *http.Request) bool {
		_, rest, namespaced := strings.Cut(r.URL.Path, "/namespaces/")
		namespace, _, _ := strings.Cut(rest, "/")
		return !namespaced || slices.Contains(slices.Collect(maps.Values(everywhere)), namespace)
	}}
	defer run(t, counter.Wrap(config))()
	define(t, w)
	for _, name := range []string{"deleted", "pruned", "protected"} {
		apply(chain)(t, w, everywhere[name])
		ready(kind("Chain"), "one")(t, w, everywhere[name])
	}
	both(both(apply(top), apply(late)), ready(kind("Top"), "here"))(t, w, everywhere["nested"])

	ns := everywhere["deleted"]
	mend(configMap, "x-b", held)(t, w, ns)
	remove(kind("Chain"), metav1.DeletePropagationBackground)(t, w, ns)
	told(kind("Chain"), "x-b", report.HeldByFinalizer)(t, w, ns)
	mend(configMap, "x-low", held)(t, w, everywhere["nested"])
	remove(kind("Top"), metav1.DeletePropagationForeground)(t, w, everywhere["nested"])
	told(kind("Top"), "x-low", report.HeldByFinalizer)(t, w, everywhere["nested"])
	mend(configMap, "x-c", held)(t, w, everywhere["pruned"])
	apply(shrunk)(t, w, everywhere["pruned"])
	pruning(kind("Chain"), "x-c", report.HeldByFinalizer)(t, w, everywhere["pruned"])
	mend(configMap, "x-b", protected)(t, w, everywhere["protected"])
	remove(kind("Chain"), metav1.DeletePropagationBackground)(t, w, everywhere["protected"])
	told(kind("Chain"), "x-b", report.Protected)(t, w, everywhere["protected"])

	// What has been told a moment ago may have a count to go with it, within five
	// seconds.
	<-time.After(5500 * time.Millisecond)
	before := counter.Now()
	<-time.After(idle)
	if cost := counter.Since(before); cost.Total > 0 {
		t.Errorf("in %s of nothing there were %d requests: %s", idle, cost.Total, cost)
	}

	mend(configMap, "x-b", free)(t, w, everywhere["deleted"])
	gone(kind("Chain"))(t, w, everywhere["deleted"])
	mend(configMap, "x-low", free)(t, w, everywhere["nested"])
	gone(kind("Top"))(t, w, everywhere["nested"])
	mend(configMap, "x-c", free)(t, w, everywhere["pruned"])
	goneOf(configMap, "x-c")(t, w, everywhere["pruned"])
	mend(configMap, "x-b", unprotected)(t, w, everywhere["protected"])
	gone(kind("Chain"))(t, w, everywhere["protected"])
}
