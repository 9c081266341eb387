package functions

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/functions/call"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/program/functions/graph"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestWaitingObjectsAreUnchanged applies what the graph function wants of a resource that it
// cannot render at the moment, as an engine does, and looks that nothing happens: neither
// does it lose anything, nor does it take what is others'.
func TestWaitingObjectsAreUnchanged(t *testing.T) {
	config := testkit.ExclusiveServer(t)
	w := testkit.NewCluster(t, config)
	ns := testkit.Namespace(t, config)
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	deployments := w.Resource(t, kind, ns)
	wanted := testkit.Parse(t, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}, annotations: {crossplane.io/external-name: web-1}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: example.org/web:1
        args: [a, b]
        ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP}]
        env: [{name: A, value: "1"}]
        volumeMounts: [{name: scratch, mountPath: /tmp}]
      volumes: [{name: scratch, emptyDir: {}}]
`)[0]
	wanted.SetNamespace(ns)
	place := inventory.Place{Layer: 1, DependsOn: []string{"config"}}
	place.Annotate(wanted)
	apply := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		t.Helper()
		answer, err := deployments.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: v1alpha1.ChildManager, Force: true})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	apply(wanted)
	others := `{"metadata":{"labels":{"theirs":"x"}},"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"web","env":[{"name":"B","value":"2"}]},{"name":"sidecar","image":"example.org/side:1"}]}}}}`
	if _, err := deployments.Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(others), metav1.PatchOptions{FieldManager: "others"}); err != nil {
		t.Fatal(err)
	}
	before := w.Get(t, kind, ns, "web")

	response := graph.New(graph.Native).Run(call.Request{
		Input: map[string]any{
			"apiVersion": "graph.fn.espalier.dev/v1alpha1", "kind": "Graph",
			"spec": map[string]any{"resources": []any{
				map[string]any{"id": "config", "template": map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}},
				map[string]any{"id": "web", "template": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{"config": "${config.data.hash}"}}},
			}},
		},
		Observed: call.State{
			Composite: call.Resource{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "App", "metadata": map[string]any{"name": "app", "namespace": ns}}},
			Resources: map[string]call.Resource{"web": {Object: before.DeepCopy().Object}},
		},
	})
	kept := response.Desired.Resources["web"]
	if kept.Object == nil || kept.Ready != call.False || response.Desired.Composite.Ready != call.False {
		t.Fatalf("it is %+v in %+v", kept, response)
	}
	after := apply(&unstructured.Unstructured{Object: kept.Object})
	if after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("it has changed.\nBefore: %s\nWanted: %s\nAfter: %s", testkit.JSON(before), testkit.JSON(&unstructured.Unstructured{Object: kept.Object}), testkit.JSON(after))
	}
}
