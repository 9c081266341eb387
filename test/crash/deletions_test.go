package crash

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
	"github.com/espalier-dev/espalier/test/steps"
)

const keeper = "apiVersion: sweep.example.com/v1alpha1\nkind: Keeper\nmetadata: {name: x, namespace: $NS}\n"

// blocker is why a deletion is blocked: its reported reason, and the patches that add and remove it.
type blocker struct {
	reason      report.Reason
	add, remove string
}

var (
	byFinalizer  = blocker{report.HeldByFinalizer, steps.AddFinalizer, steps.RemoveFinalizer}
	byProtection = blocker{report.Protected, steps.Protect, steps.Unprotect}
)

// deletionBlocked deletes an instance while an object blocks its deletion, and removes the blocker
// once it is reported.
func deletionBlocked(name string, create steps.Step, instance, of schema.GroupVersionKind, object string, by blocker) scenario {
	return scenario{
		sparse: true, name: name,
		before: steps.All(create, steps.Patch(of, object, by.add)),
		act: steps.All(steps.Delete(instance, metav1.DeletePropagationBackground),
			steps.AwaitBlocker(instance, object, by.reason), steps.Patch(of, object, by.remove)),
		settled: steps.AwaitGone(instance),
	}
}

// deletions are scenarios of deletions that are blocked, or leave objects behind.
var deletions = []scenario{
	{
		sparse: true, name: "delete and leave orphans", before: steps.CreateChain,
		act: steps.Delete(steps.Kind("Chain"), metav1.DeletePropagationOrphan), settled: steps.AwaitGone(steps.Kind("Chain")),
	},
	{
		sparse: true, name: "delete a nest and leave orphans", before: steps.CreateNest,
		act: steps.Delete(steps.Kind("Top"), metav1.DeletePropagationOrphan), settled: steps.AwaitGone(steps.Kind("Top")),
	},
	{
		sparse: true, name: "delete in the foreground", before: steps.CreateChain,
		act: steps.Delete(steps.Kind("Chain"), metav1.DeletePropagationForeground), settled: steps.AwaitGone(steps.Kind("Chain")),
	},
	{
		sparse: true, name: "delete and retain children", before: steps.All(steps.Apply(keeper), awaitKeeper),
		act: steps.Delete(steps.Kind("Keeper"), metav1.DeletePropagationBackground), settled: steps.AwaitGone(steps.Kind("Keeper")),
	},
	deletionBlocked("delete, held by a finalizer", steps.CreateChain, steps.Kind("Chain"), suite.ConfigMap, "x-e", byFinalizer),
	deletionBlocked("delete a nest, held by a finalizer", steps.CreateNest, steps.Kind("Top"), suite.ConfigMap, "x-low", byFinalizer),
	{
		sparse: true, name: "delete by force",
		before:  steps.All(steps.CreateChain, steps.Patch(suite.ConfigMap, "x-e", steps.AddFinalizer)),
		act:     steps.All(steps.Patch(steps.Kind("Chain"), "x", `{"metadata":{"annotations":{"espalier.dev/force-delete":"e"}}}`), steps.Delete(steps.Kind("Chain"), metav1.DeletePropagationBackground)),
		settled: steps.AwaitGone(steps.Kind("Chain")), cleanUp: steps.Patch(suite.ConfigMap, "x-e", steps.RemoveFinalizer),
	},
	{
		sparse: true, name: "delete by force after a report",
		before: steps.All(steps.CreateChain, steps.Patch(suite.ConfigMap, "x-b", steps.AddFinalizer)),
		act: steps.All(steps.Delete(steps.Kind("Chain"), metav1.DeletePropagationBackground), steps.AwaitBlocker(steps.Kind("Chain"), "x-b", report.HeldByFinalizer),
			steps.Patch(steps.Kind("Chain"), "x", `{"metadata":{"annotations":{"espalier.dev/force-delete":"all"}}}`)),
		settled: steps.AwaitGone(steps.Kind("Chain")), cleanUp: steps.Patch(suite.ConfigMap, "x-b", steps.RemoveFinalizer),
	},
	deletionBlocked("delete a protected instance", steps.CreateChain, steps.Kind("Chain"), steps.Kind("Chain"), "x", byProtection),
	deletionBlocked("delete with a protected child", steps.CreateChain, steps.Kind("Chain"), suite.ConfigMap, "x-b", byProtection),
	{
		sparse: true, name: "prune a child with a finalizer",
		before: steps.All(steps.CreateChain, steps.Patch(suite.ConfigMap, "x-c", steps.AddFinalizer)),
		act: steps.All(steps.Apply(steps.ShrunkChain), steps.AwaitPruneBlocker(steps.Kind("Chain"), "x-c", report.HeldByFinalizer),
			steps.Patch(suite.ConfigMap, "x-c", steps.RemoveFinalizer)),
		settled: steps.All(steps.AwaitAbsent(suite.ConfigMap, "x-c"), steps.AwaitReady(steps.Kind("Chain"), "one"), awaitNothingPruned(steps.Kind("Chain"))),
	},
}

func awaitNothingPruned(gvk schema.GroupVersionKind) steps.Step {
	return func(t *testing.T, w *testkit.Cluster, ns string) {
		w.Await(t, gvk, ns, "x", func(o *unstructured.Unstructured) error {
			if left := report.ReadPruning(o); len(left) > 0 {
				return fmt.Errorf("still reports %+v", left)
			}
			return nil
		})
	}
}

func awaitKeeper(t *testing.T, w *testkit.Cluster, ns string) {
	w.AwaitReady(t, steps.Kind("Keeper"), ns, "x")
}
