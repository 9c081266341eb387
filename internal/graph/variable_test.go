package graph_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/graph"
)

func TestDeletionOrderIncludesVariables(t *testing.T) {
	d := definition(t, `
spec:
  schema: {kind: Through, apiVersion: v1}
  resources:
    - {id: low, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: low}}}
    - {id: outer, value: "${inner}"}
    - {id: inner, value: {name: "${low.metadata.name}"}}
    - {id: top, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${outer.name}-top"}}}
    - {id: apart, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: apart}}}
`)
	g, problems := graph.Compile(&d.Spec, commonKinds(t, ""))
	if problems != nil {
		t.Fatal(problems.Err())
	}
	configMap := []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}}
	if diff := cmp.Diff(configMap, g.ChildKinds()) + cmp.Diff(configMap, graph.UsedKinds(&d.Spec)); diff != "" {
		t.Errorf("a variable is looked up or watched: %s", diff)
	}
	got := map[string][]string{}
	layers := map[string]int{}
	for _, n := range g.Compose(someInstance(g)).Nodes {
		if !n.Variable {
			got[n.ID], layers[n.ID] = n.DependsOn, n.Layer
		}
	}
	if diff := cmp.Diff(map[string][]string{"low": nil, "top": {"low"}, "apart": nil}, got); diff != "" {
		t.Errorf("what has to stay as long (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"low": 0, "top": 1, "apart": 0}, layers); diff != "" {
		t.Errorf("the order of application (-want +got):\n%s", diff)
	}
}

// A condition may read a variable that is compiled after those without a condition, and that the value does not read.
func TestAConditionOfAVariableReadsVariables(t *testing.T) {
	d := definition(t, `
spec:
  schema: {kind: Through, apiVersion: v1}
  resources:
    - {id: greeting, value: hello, includeWhen: ["${wanted.greeting}"]}
    - {id: wanted, value: {greeting: "${enabled}"}}
    - {id: enabled, value: true}
    - {id: low, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: low}, data: {greeting: "${greeting}"}}}
`)
	if _, problems := graph.Compile(&d.Spec, commonKinds(t, "")); problems != nil {
		t.Error(problems.Err())
	}
}
