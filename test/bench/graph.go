package main

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

const graphKind = "Graph"

var graphs = schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "graphs"}

// graphOfFive has the resources of manifests/flat.yaml as nodes. Its texts are its own, so no two Graphs are equal.
const graphOfFive = `
apiVersion: kro.run/v1alpha1
kind: Graph
metadata: {name: %[1]s, namespace: default}
spec:
  serviceAccountName: builder
  nodes:
    - id: a
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: %[1]s-a}, data: {text: %[2]q}}
    - id: b
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${a.metadata.name}-b"}, data: {text: "${a.data.text}"}}
    - id: c
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${a.metadata.name}-c"}, data: {text: "${a.data.text}"}}
    - id: d
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${b.metadata.name}-d"}, data: {text: "${b.data.text}"}}
    - id: e
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${c.metadata.name}-e"}, data: {text: "${c.data.text}"}}
`

func newGraph(name string, wording int) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	err := yaml.Unmarshal(fmt.Appendf(nil, graphOfFive, name, text(name, wording)), &o.Object)
	return o, err
}

// measureGraph measures Graphs of five ConfigMaps, with the budgets of instances: their creation, idle time, changes and
// deletion, a restart with many of them, and their memory.
func measureGraph(ctx context.Context, b *bench) error {
	f, err := b.flats(ctx, graphKind, graphs)
	if err != nil {
		return err
	}
	defer f.seen.stop()
	if err := f.measureLife(ctx, "create a Graph of 5 nodes in 3 levels", 7); err != nil {
		return err
	}
	n, prefix := b.restarted(), "many"
	idle, busy, err := f.restartWithMany(ctx, prefix, n)
	if err != nil {
		return err
	}
	f.add(row{Work: "memory of a Graph of 5 nodes, with its objects in the cache", Unit: "KiB", Value: float64(busy.heap-idle.heap) / float64(n) / 1024,
		Budget: 100})
	if err := f.measureIdle(ctx, n); err != nil {
		return err
	}
	_, err = f.delete(ctx, prefix, n)
	return err
}
