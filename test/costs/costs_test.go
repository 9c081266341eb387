package costs

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
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

// TestFiveChildrenTakeOneWriteEach counts writes: an instance with five children in three layers
// is created in one reconcile.
func TestFiveChildrenTakeOneWriteEach(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	counter := testkit.NewCrash(0)
	stop := steps.Run(t, counter.Wrap(config))
	defer stop()
	steps.Define(t, w)
	ns := testkit.Namespace(t, config)
	steps.Apply("apiVersion: sweep.example.com/v1alpha1\nkind: Chain\nmetadata: {name: warm, namespace: $NS}\nspec: {value: one}\n")(t, w, ns)
	w.AwaitReady(t, steps.Kind("Chain"), ns, "warm")

	for _, tc := range []struct {
		name   string
		step   steps.Step
		writes int
	}{
		{"create: claim, five children, status", steps.CreateChain, 7},
		{"update: five children, status", steps.All(steps.Apply(steps.ChangedChain), steps.AwaitReady(steps.Kind("Chain"), "two")), 6},
		{
			"delete: status, five children, finalizer",
			steps.All(steps.Delete(steps.Kind("Chain"), metav1.DeletePropagationBackground), steps.AwaitGone(steps.Kind("Chain"))), 7,
		},
	} {
		before := counter.Writes()
		tc.step(t, w, ns)
		if got := counter.Writes() - before; got != tc.writes {
			t.Errorf("%s: %d writes, not %d", tc.name, got, tc.writes)
		}
	}
}

// TestDeletionTakesAtMostNineRequests counts reads as well. A foreground deletion may take more.
func TestDeletionTakesAtMostNineRequests(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	var counter testkit.Counter
	defer steps.Run(t, counter.Wrap(config))()
	steps.Define(t, w)
	for i, policy := range []metav1.DeletionPropagation{
		metav1.DeletePropagationForeground, // not counted: the garbage collector discovers a new kind with a delay
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	} {
		testkit.RetryMeasurement(t, fmt.Sprintf("%d %s", i, policy), func(t *testing.T) (excess string) {
			ns := testkit.Namespace(t, config)
			steps.Apply(steps.Chain)(t, w, ns)
			steps.AwaitReady(steps.Kind("Chain"), "one")(t, w, ns)
			before := counter.Snapshot()
			steps.Delete(steps.Kind("Chain"), policy)(t, w, ns)
			steps.AwaitGone(steps.Kind("Chain"))(t, w, ns)
			cost := counter.Since(before)
			if i == 0 {
				return ""
			}
			testkit.Report(t, "costs: %s deletion of five children in three layers: %d requests (%s)", policy, cost.Total, cost)
			most := 9
			if policy == metav1.DeletePropagationForeground {
				most += 2 * 5 // the collector removes owner references meanwhile: each changed child is read and deleted again
			}
			if cost.Total > most {
				return fmt.Sprintf("%s: %d requests (%s)", policy, cost.Total, cost)
			}
			return ""
		})
	}
}

// TestCompositeOfFiveTakesAtMostNineRequests counts the requests for a composite that is created,
// changed, at rest, and deleted with each propagation policy.
func TestCompositeOfFiveTakesAtMostNineRequests(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	ns := ""
	counter := testkit.Counter{Filter: func(r *http.Request) bool { return !steps.InOtherNamespace(r.URL.Path, ns) }}
	defer steps.Run(t, counter.Wrap(config))()
	steps.Define(t, w)
	for i, policy := range []metav1.DeletionPropagation{
		metav1.DeletePropagationForeground, // not counted: kinds are discovered
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
	} {
		testkit.RetryMeasurement(t, fmt.Sprintf("%d %s", i, policy), func(t *testing.T) (excess string) {
			ns = testkit.Namespace(t, config)
			measure := func(what string, most int, do ...steps.Step) {
				before := counter.Snapshot()
				for _, do := range do {
					do(t, w, ns)
				}
				cost := counter.Since(before)
				if i == 0 {
					return
				}
				testkit.Report(t, "costs: a composite of five, %s: %d requests (%s)", what, cost.Total, cost)
				if cost.Total > most {
					excess += fmt.Sprintf("%s: %d requests (%s), more than %d; ", what, cost.Total, cost, most)
				}
			}
			measure("created", 9, steps.Apply(steps.Five), steps.AwaitComposed("one", 5, 0))
			measure("changed", 7, steps.Apply(steps.ChangedFive), steps.AwaitComposed("two", 5, 0))
			measure("at rest for a second", 0, func(*testing.T, *testkit.Cluster, string) { <-time.After(time.Second) })
			most := 9
			if policy == metav1.DeletePropagationForeground {
				most += 2 * 5 // as for graphs
			}
			measure("deleted, "+string(policy), most, steps.Delete(steps.Kind("Five"), policy), steps.AwaitGone(steps.Kind("Five")))
			return excess
		})
	}
}

// idle is how long a test waits to see that there are no requests.
const idle = 3 * time.Second

// TestBlockedDeletionsTakeNoRequests counts requests while deletions and a prune wait for a
// finalizer or for protection.
func TestBlockedDeletionsTakeNoRequests(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	namespaces := map[string]string{}
	for _, name := range []string{"deleted", "nested", "pruned", "protected"} {
		namespaces[name] = testkit.Namespace(t, config)
	}
	// Namespaces of other tests may still be terminating.
	counter := testkit.Counter{Filter: func(r *http.Request) bool {
		_, rest, namespaced := strings.Cut(r.URL.Path, "/namespaces/")
		namespace, _, _ := strings.Cut(rest, "/")
		return !namespaced || slices.Contains(slices.Collect(maps.Values(namespaces)), namespace)
	}}
	defer steps.Run(t, counter.Wrap(config))()
	steps.Define(t, w)
	for _, name := range []string{"deleted", "pruned", "protected"} {
		steps.Apply(steps.Chain)(t, w, namespaces[name])
		steps.AwaitReady(steps.Kind("Chain"), "one")(t, w, namespaces[name])
	}
	steps.CreateNest(t, w, namespaces["nested"])

	ns := namespaces["deleted"]
	steps.Patch(suite.ConfigMap, "x-b", steps.AddFinalizer)(t, w, ns)
	steps.Delete(steps.Kind("Chain"), metav1.DeletePropagationBackground)(t, w, ns)
	steps.AwaitBlocker(steps.Kind("Chain"), "x-b", report.HeldByFinalizer)(t, w, ns)
	steps.Patch(suite.ConfigMap, "x-low", steps.AddFinalizer)(t, w, namespaces["nested"])
	steps.Delete(steps.Kind("Top"), metav1.DeletePropagationForeground)(t, w, namespaces["nested"])
	steps.AwaitBlocker(steps.Kind("Top"), "x-low", report.HeldByFinalizer)(t, w, namespaces["nested"])
	steps.Patch(suite.ConfigMap, "x-c", steps.AddFinalizer)(t, w, namespaces["pruned"])
	steps.Apply(steps.ShrunkChain)(t, w, namespaces["pruned"])
	steps.AwaitPruneBlocker(steps.Kind("Chain"), "x-c", report.HeldByFinalizer)(t, w, namespaces["pruned"])
	steps.Patch(suite.ConfigMap, "x-b", steps.Protect)(t, w, namespaces["protected"])
	steps.Delete(steps.Kind("Chain"), metav1.DeletePropagationBackground)(t, w, namespaces["protected"])
	steps.AwaitBlocker(steps.Kind("Chain"), "x-b", report.Protected)(t, w, namespaces["protected"])

	// A new report may be completed by a count within five seconds.
	<-time.After(5500 * time.Millisecond)
	before := counter.Snapshot()
	<-time.After(idle)
	if cost := counter.Since(before); cost.Total > 0 {
		t.Errorf("%d requests within %s: %s", cost.Total, idle, cost)
	}

	steps.Patch(suite.ConfigMap, "x-b", steps.RemoveFinalizer)(t, w, namespaces["deleted"])
	steps.AwaitGone(steps.Kind("Chain"))(t, w, namespaces["deleted"])
	steps.Patch(suite.ConfigMap, "x-low", steps.RemoveFinalizer)(t, w, namespaces["nested"])
	steps.AwaitGone(steps.Kind("Top"))(t, w, namespaces["nested"])
	steps.Patch(suite.ConfigMap, "x-c", steps.RemoveFinalizer)(t, w, namespaces["pruned"])
	steps.AwaitAbsent(suite.ConfigMap, "x-c")(t, w, namespaces["pruned"])
	steps.Patch(suite.ConfigMap, "x-b", steps.Unprotect)(t, w, namespaces["protected"])
	steps.AwaitGone(steps.Kind("Chain"))(t, w, namespaces["protected"])
}
