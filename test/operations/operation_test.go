package operations

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/composition/operation"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestAnOperationRunsUntilItSucceeds once, as its account, and applies objects that nobody owns, also over the fields of others.
func TestAnOperationRunsUntilItSucceeds(t *testing.T) {
	w := newWorld(t)
	w.start(t)
	w.Apply(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: once, namespace: "+w.namespace+"}, data: {watched: other, kept: value}}")
	w.Apply(t, "{apiVersion: ops.crossplane.io/v1alpha1, kind: Operation, metadata: {name: once}, spec: "+w.spec("once", "", ", failures: 2")+"}")
	done := w.Await(t, operation.Kind, "", "once", succeeded)
	if failures, _, _ := unstructured.NestedInt64(done.Object, "status", "failures"); failures != 2 {
		t.Errorf("it has %d failures", failures)
	}
	w.Await(t, operation.Kind, "", "once", suite.All(
		suite.HasField([]any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": w.namespace, "name": "once"}}, "status", "appliedResourceRefs"),
		suite.HasField([]any{map[string]any{"step": "run", "output": map[string]any{"watched": "nothing", "credentials": int64(0)}}}, "status", "pipeline")))
	applied := w.Get(t, configMapKind, w.namespace, "once")
	data, _, _ := unstructured.NestedStringMap(applied.Object, "data")
	if data["watched"] != "nothing" || data["kept"] != "value" || len(applied.GetOwnerReferences()) != 0 {
		t.Errorf("applied: %s", testkit.JSON(applied))
	}
	manager := "ops.crossplane.io/operation/" + string(done.GetUID())
	found := false
	for _, m := range applied.GetManagedFields() {
		found = found || m.Manager == manager
	}
	if !found {
		t.Errorf("%s manages no fields", manager)
	}
	w.Patch(t, operation.Kind, "", "once", `{"metadata": {"annotations": {"changed": "true"}}}`)
	w.Apply(t, "{apiVersion: ops.crossplane.io/v1alpha1, kind: Operation, metadata: {name: later}, spec: "+w.spec("later")+"}")
	w.Await(t, operation.Kind, "", "later", succeeded)
	if calls := w.called("once"); calls != 3 {
		t.Errorf("the function was called %d times", calls)
	}
}

// TestAnOperationFails when its attempts are used up, and says why.
func TestAnOperationFails(t *testing.T) {
	w := newWorld(t)
	w.start(t)
	other := strings.Replace(w.spec("foreign", "retryLimit: 1,"), "namespace: "+w.namespace+", name: foreign", "namespace: default, name: foreign", 1)
	for name, tc := range map[string]struct{ spec, message string }{
		"fatal":   {w.spec("fatal", "retryLimit: 2,", ", failures: 9"), "failure 2"},
		"foreign": {other, "forbidden"},
		"input":   {strings.Replace(w.spec("input", "retryLimit: 1,"), "name: input}", "name: INVALID_NAME}", 1), "INVALID_NAME"},
	} {
		w.Apply(t, "{apiVersion: ops.crossplane.io/v1alpha1, kind: Operation, metadata: {name: "+name+"}, spec: "+tc.spec+"}")
		w.Await(t, operation.Kind, "", name, suite.All(suite.HasCondition("Succeeded", "False", "PipelineError", tc.message), suite.HasCondition("Synced", "True", "ReconcileSuccess")))
	}
	if calls := w.called("fatal"); calls != 2 {
		t.Errorf("the function that fails was called %d times", calls)
	}
}

// TestAnOperationWaits for its function and for an account, without an attempt.
func TestAnOperationWaits(t *testing.T) {
	w := newWorld(t)
	w.start(t)
	w.Apply(t, "{apiVersion: ops.crossplane.io/v1alpha1, kind: Operation, metadata: {name: early}, spec: {pipeline: [{step: run, functionRef: {name: function-late}}]}}")
	w.Await(t, operation.Kind, "", "early", suite.HasCondition("ValidPipeline", "False", "MissingCapabilities", "there is no Function function-late"))
	w.Apply(t, `{apiVersion: pkg.crossplane.io/v1, kind: Function, metadata: {name: function-late}, spec: {package: registry.example.org/late:v1}}
---
{apiVersion: pkg.crossplane.io/v1, kind: FunctionRevision, metadata: {name: late-1, labels: {pkg.crossplane.io/package: function-late}}, spec: {desiredState: Active, image: registry.example.org/late:v1, revision: 1}}`)
	t.Cleanup(func() {
		_ = w.Resource(t, functionKind, "").Delete(context.Background(), "function-late", metav1.DeleteOptions{})
		_ = w.Resource(t, functionRevisionKind, "").Delete(context.Background(), "late-1", metav1.DeleteOptions{})
	})
	w.SetStatus(t, functionRevisionKind, "", "late-1", map[string]any{"endpoint": "127.0.0.1:1", "capabilities": []any{"composition"}})
	w.Await(t, operation.Kind, "", "early", suite.HasCondition("ValidPipeline", "False", "MissingCapabilities", "lacks the capability operation; it has composition"))

	withoutAccount := strings.Replace(w.spec("none"), "serviceAccount: {name: operator, namespace: "+w.namespace+"},", "", 1)
	w.Apply(t, "{apiVersion: ops.crossplane.io/v1alpha1, kind: Operation, metadata: {name: none}, spec: "+withoutAccount+"}")
	w.Await(t, operation.Kind, "", "none", suite.HasCondition("Synced", "False", "ReconcileError", "name an account"))
	w.Patch(t, operation.Kind, "", "none", `{"spec": {"serviceAccount": {"name": "operator", "namespace": "`+w.namespace+`"}}}`)
	w.Await(t, operation.Kind, "", "none", succeeded)
}
