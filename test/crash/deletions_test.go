package crash

import (
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/internal/instance/report"
	"github.com/espalier-dev/espalier/internal/testkit"
)

const (
	keeper = "apiVersion: sweep.example.com/v1alpha1\nkind: Keeper\nmetadata: {name: x, namespace: $NS}\n"
	held   = `{"metadata":{"finalizers":["example.com/held"]}}`
	free   = `{"metadata":{"finalizers":null}}`
)

// deletions are scenarios of deletions that don't just go on to their end.
var deletions = []scenario{
	{
		hard: true, name: "delete and leave orphans", before: both(apply(chain), ready(kind("Chain"), "one")),
		act: remove(kind("Chain"), metav1.DeletePropagationOrphan), settled: gone(kind("Chain")),
	},
	{
		hard: true, name: "delete a nest and leave orphans", before: both(both(apply(top), apply(late)), ready(kind("Top"), "here")),
		act: remove(kind("Top"), metav1.DeletePropagationOrphan), settled: gone(kind("Top")),
	},
	{
		hard: true, name: "delete in the foreground", before: both(apply(chain), ready(kind("Chain"), "one")),
		act: remove(kind("Chain"), metav1.DeletePropagationForeground), settled: gone(kind("Chain")),
	},
	{
		hard: true, name: "delete and keep what is to stay", before: both(apply(keeper), settledKeeper),
		act: remove(kind("Keeper"), metav1.DeletePropagationBackground), settled: gone(kind("Keeper")),
	},
	{
		hard: true, name: "delete, held by a finalizer",
		before: both(both(apply(chain), ready(kind("Chain"), "one")), mend(configMap, "x-e", held)),
		act: both(both(remove(kind("Chain"), metav1.DeletePropagationBackground),
			told(kind("Chain"), "x-e", report.HeldByFinalizer)), mend(configMap, "x-e", free)),
		settled: gone(kind("Chain")),
	},
	{
		hard: true, name: "delete a nest, held by a finalizer",
		before: both(both(both(apply(top), apply(late)), ready(kind("Top"), "here")), mend(configMap, "x-low", held)),
		act: both(both(remove(kind("Top"), metav1.DeletePropagationBackground),
			told(kind("Top"), "x-low", report.HeldByFinalizer)), mend(configMap, "x-low", free)),
		settled: gone(kind("Top")),
	},
	{
		hard: true, name: "delete by force",
		before:  both(both(apply(chain), ready(kind("Chain"), "one")), mend(configMap, "x-e", held)),
		act:     both(mend(kind("Chain"), "x", `{"metadata":{"annotations":{"espalier.dev/force-delete":"e"}}}`), remove(kind("Chain"), metav1.DeletePropagationBackground)),
		settled: gone(kind("Chain")), after: mend(configMap, "x-e", free),
	},
	{
		hard: true, name: "delete by force what has been told of",
		before: both(both(apply(chain), ready(kind("Chain"), "one")), mend(configMap, "x-b", held)),
		act: both(both(remove(kind("Chain"), metav1.DeletePropagationBackground), told(kind("Chain"), "x-b", report.HeldByFinalizer)),
			mend(kind("Chain"), "x", `{"metadata":{"annotations":{"espalier.dev/force-delete":"all"}}}`)),
		settled: gone(kind("Chain")), after: mend(configMap, "x-b", free),
	},
	{
		hard: true, name: "delete what is protected",
		before: both(both(apply(chain), ready(kind("Chain"), "one")), mend(kind("Chain"), "x", protected)),
		act: both(both(remove(kind("Chain"), metav1.DeletePropagationBackground),
			told(kind("Chain"), "x", report.Protected)), mend(kind("Chain"), "x", unprotected)),
		settled: gone(kind("Chain")),
	},
	{
		hard: true, name: "delete with a child that is protected",
		before: both(both(apply(chain), ready(kind("Chain"), "one")), mend(configMap, "x-b", protected)),
		act: both(both(remove(kind("Chain"), metav1.DeletePropagationBackground),
			told(kind("Chain"), "x-b", report.Protected)), mend(configMap, "x-b", unprotected)),
		settled: gone(kind("Chain")),
	},
	{
		hard: true, name: "leave out what is held",
		before: both(both(apply(chain), ready(kind("Chain"), "one")), mend(configMap, "x-c", held)),
		act: both(both(apply(shrunk), pruning(kind("Chain"), "x-c", report.HeldByFinalizer)),
			mend(configMap, "x-c", free)),
		settled: both(both(goneOf(configMap, "x-c"), ready(kind("Chain"), "one")), nothingPruned(kind("Chain"))),
	},
}

const (
	protected   = `{"metadata":{"annotations":{"espalier.dev/protect":"holds the ledger"}}}`
	unprotected = `{"metadata":{"annotations":{"espalier.dev/protect":null}}}`
)

// remove deletes the instance.
func remove(gvk schema.GroupVersionKind, policy metav1.DeletionPropagation) func(*testing.T, *testkit.World, string) {
	return func(t *testing.T, w *testkit.World, ns string) {
		t.Helper()
		if err := w.Of(t, gvk, ns).Delete(t.Context(), "x", metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
			t.Fatal(err)
		}
	}
}

// mend patches an object as a person would.
func mend(gvk schema.GroupVersionKind, name, patch string) func(*testing.T, *testkit.World, string) {
	return func(t *testing.T, w *testkit.World, ns string) {
		t.Helper()
		_, err := w.Of(t, gvk, ns).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
		if err != nil {
			t.Fatalf("%s %s: %v", gvk.Kind, name, err)
		}
	}
}

// told waits until the deletion of the instance tells what is in its way.
func told(gvk schema.GroupVersionKind, object string, reason report.Reason) func(*testing.T, *testkit.World, string) {
	return tells(gvk, object, reason, func(o *unstructured.Unstructured) []report.Blocker {
		if d := report.ReadDeletion(o); d != nil {
			return d.Blockers
		}
		return nil
	})
}

// pruning waits until the instance tells what it can't prune.
func pruning(gvk schema.GroupVersionKind, object string, reason report.Reason) func(*testing.T, *testkit.World, string) {
	return tells(gvk, object, reason, report.ReadPruning)
}

func tells(gvk schema.GroupVersionKind, object string, reason report.Reason, of func(*unstructured.Unstructured) []report.Blocker) func(*testing.T, *testkit.World, string) {
	return func(t *testing.T, w *testkit.World, ns string) {
		t.Helper()
		w.Await(t, gvk, ns, "x", func(o *unstructured.Unstructured) error {
			if o == nil {
				return errors.New("is gone")
			}
			for _, b := range of(o) {
				if deepest := b.Deepest(); deepest.Object.Name == object && deepest.Reason == reason {
					return nil
				}
			}
			return fmt.Errorf("doesn't tell of %s %s", object, reason)
		})
	}
}

func nothingPruned(gvk schema.GroupVersionKind) func(*testing.T, *testkit.World, string) {
	return func(t *testing.T, w *testkit.World, ns string) {
		w.Await(t, gvk, ns, "x", func(o *unstructured.Unstructured) error {
			if left := report.ReadPruning(o); len(left) > 0 {
				return fmt.Errorf("still tells of %+v", left)
			}
			return nil
		})
	}
}

func goneOf(gvk schema.GroupVersionKind, name string) func(*testing.T, *testkit.World, string) {
	return func(t *testing.T, w *testkit.World, ns string) { w.AwaitGone(t, gvk, ns, name) }
}

func settledKeeper(t *testing.T, w *testkit.World, ns string) {
	w.AwaitReady(t, kind("Keeper"), ns, "x")
}
