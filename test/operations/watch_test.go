package operations

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	opsv1alpha1 "github.com/espalier-dev/espalier/api/ops/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/operation"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

func (w *world) watch(name string, more ...string) string {
	return fmt.Sprintf("{apiVersion: ops.crossplane.io/v1alpha1, kind: WatchOperation, metadata: {name: %s}, spec: {watch: {apiVersion: v1, kind: ConfigMap, "+
		"namespace: %s, matchLabels: {watched: %s}}, %s operationTemplate: {spec: %s}}}", name, w.namespace, name, first(more), w.spec(name+"-result"))
}

func (w *world) object(label, name, text string) string {
	return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s, labels: {watched: %s}}, data: {text: %s}}", name, w.namespace, label, text)
}

// awaitResult waits until an operation for a change has applied what it was given.
func (w *world) awaitResult(t *testing.T, name, want string) {
	t.Helper()
	w.Await(t, configMapKind, w.namespace, name+"-result", suite.HasField(want, "data", "watched"))
}

// TestAWatchOperationMakesOperations for each object, for its changes and for its deletion, and not again after a restart.
func TestAWatchOperationMakesOperations(t *testing.T) {
	w := newWorld(t)
	c := w.start(t)
	w.Apply(t, w.object("all", "one", "first"))
	w.Apply(t, w.watch("all", "successfulHistoryLimit: 10,"))
	w.awaitResult(t, "all", "one has first")
	w.Apply(t, w.object("all", "one", "second"))
	w.awaitResult(t, "all", "one has second")
	w.Apply(t, w.object("all", "two", "third"))
	w.awaitResult(t, "all", "two has third")
	w.Patch(t, configMapKind, w.namespace, "one", `{"metadata": {"labels": {"watched": "no"}}}`)
	w.Await(t, operation.WatchKind, "", "all", suite.HasField(int64(1), "status", "watchingResources"))
	w.Delete(t, configMapKind, w.namespace, "two")
	w.awaitResult(t, "all", "two is deleted")
	w.Await(t, operation.WatchKind, "", "all", suite.All(suite.HasCondition("Watching", "True", "WatchActive"), hasNot("watchingResources"), hasNot("runningOperationRefs")))
	made := w.operations(t, opsv1alpha1.WatchOperationLabel, "all")
	if len(made) != 4 {
		t.Errorf("there are %d operations", len(made))
	}
	for name, o := range made {
		a := o.GetAnnotations()
		if a[opsv1alpha1.WatchedKindAnnotation] != "ConfigMap" || a[opsv1alpha1.WatchedNamespaceAnnotation] != w.namespace || !strings.HasPrefix(name, "all-") {
			t.Errorf("operation %s: %v", name, a)
		}
	}
	w.Apply(t, w.object("all", "three", "fourth"))
	w.awaitResult(t, "all", "three has fourth")
	w.Await(t, operation.WatchKind, "", "all", hasNot("runningOperationRefs"))
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	w.DeleteAll(t, "all")
	w.Apply(t, w.object("all", "four", "fifth")) // while nothing runs
	before := w.called("all-result")
	w.start(t)
	w.awaitResult(t, "all", "four has fifth")
	if calls := w.called("all-result") - before; calls != 1 {
		t.Errorf("after a restart %d operations have run, although one object has changed", calls)
	}
}

// DeleteAll deletes the operations of a WatchOperation: history is no memory of what was done.
func (w *world) DeleteAll(t *testing.T, name string) {
	t.Helper()
	for operationName := range w.operations(t, opsv1alpha1.WatchOperationLabel, name) {
		w.Delete(t, operation.Kind, "", operationName)
	}
}

// TestForbidLosesNoChange: what changes while an operation runs is due afterwards, in its newest state, and so is a deletion, also if the
// controllers are restarted meanwhile.
func TestForbidLosesNoChange(t *testing.T) {
	w := newWorld(t)
	c := w.start(t)
	release := w.block("forbid-result")
	w.Apply(t, w.watch("forbid", "concurrencyPolicy: Forbid, successfulHistoryLimit: 10,"))
	w.Apply(t, w.object("forbid", "one", "first"))
	w.AwaitList(t, operation.Kind, "", opsv1alpha1.WatchOperationLabel+"=forbid", func(all map[string]*unstructured.Unstructured) error {
		for _, o := range all {
			return suite.HasCondition("Succeeded", "Unknown", "PipelineRunning")(o)
		}
		return fmt.Errorf("there is none")
	})
	w.Apply(t, w.object("forbid", "two", "second"))
	w.Await(t, operation.WatchKind, "", "forbid", suite.HasCondition("Watching", "True", "WatchActive", "1 change waits"))
	w.Apply(t, w.object("forbid", "gone", "short"))
	w.Await(t, operation.WatchKind, "", "forbid", suite.HasField(int64(3), "status", "watchingResources"))
	w.Delete(t, configMapKind, w.namespace, "gone")
	w.Await(t, operation.WatchKind, "", "forbid", suite.All(suite.HasField(int64(2), "status", "watchingResources"), suite.HasCondition("Watching", "True", "WatchActive", "2 changes wait")))
	for _, text := range []string{"third", "fourth"} {
		w.Apply(t, w.object("forbid", "one", text))
	}
	if made := w.operations(t, opsv1alpha1.WatchOperationLabel, "forbid"); len(made) != 1 {
		t.Errorf("%d operations run at a time", len(made))
	}
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	release()
	w.start(t)
	w.awaitResult(t, "forbid", "one has fourth")
	w.Await(t, operation.WatchKind, "", "forbid", suite.All(suite.HasCondition("Watching", "True", "WatchActive", ""), hasNot("runningOperationRefs")))
	seen := map[string]bool{}
	for _, o := range w.operations(t, opsv1alpha1.WatchOperationLabel, "forbid") {
		a := o.GetAnnotations()
		if what := a[opsv1alpha1.WatchedNameAnnotation]; a[opsv1alpha1.WatchedResourceVersionAnnotation] == opsv1alpha1.DeletedResourceVersion {
			seen[what+" is deleted"] = true
		} else {
			seen[what] = true
		}
	}
	if !seen["two"] || !seen["gone is deleted"] || seen["gone"] {
		t.Errorf("there were operations for %v", seen)
	}
}

// TestAWatchThatFailsIsReported, and goes on when it can.
func TestAWatchThatFailsIsReported(t *testing.T) {
	w := newWorld(t)
	w.start(t)
	w.Apply(t, strings.Replace(w.watch("kinds"), "apiVersion: v1, kind: ConfigMap", "apiVersion: absent.example.org/v1, kind: Absent", 1))
	w.Await(t, operation.WatchKind, "", "kinds", suite.HasCondition("Watching", "False", "WatchFailed", "Absent"))
	w.Apply(t, strings.Replace(w.watch("secrets"), "kind: ConfigMap", "kind: Secret", 1))
	w.Await(t, operation.WatchKind, "", "secrets", suite.HasCondition("Watching", "False", "WatchFailed", "forbidden"))
	w.Apply(t, w.object("secrets", "one", "first"))
	w.Patch(t, operation.WatchKind, "", "secrets", `{"spec": {"watch": {"kind": "ConfigMap"}}}`)
	w.awaitResult(t, "secrets", "one has first")
}
