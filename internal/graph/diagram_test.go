package graph_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/graph"
)

// TestDiagram draws a definition with each sort of node.
func TestDiagram(t *testing.T) {
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(`
schema: {apiVersion: v1alpha1, kind: App, spec: {zones: "[]string", public: boolean}, status: {address: "${route.data.address}"}}
resources:
- id: prefix
  value: ${schema.metadata.name + "-x"}
- id: issuer
  externalRef: {apiVersion: example.com/v1, kind: Issuer, metadata: {name: issuer}}
- id: shards
  forEach: [{zone: "${schema.spec.zones}"}]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${prefix + zone}"}}
- id: route
  includeWhen: ["${schema.spec.public}"]
  deleteAfter: [shards]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: route}, data: {address: "${issuer.spec.host}"}}
`), &spec); err != nil {
		t.Fatal(err)
	}
	definition, problems := graph.Read(spec)
	g, more := graph.Compile(definition, graph.Kinds{})
	if problems.Add(more...); len(problems) > 0 {
		t.Fatal(problems)
	}
	const want = `digraph "App.kro.run/v1alpha1" {
  rankdir=LR;
  node [shape=box, fontname="monospace", fontsize=11];
  "schema" [label="App\nthe instance"];
  "prefix" [label="prefix\nvalue", style=rounded];
  "issuer" [label="issuer\nIssuer\nexternal\nthe kind is not known", style=dashed];
  "shards" [label="shards\nConfigMap\nthe kind is not known\nfor each zone in schema.spec.zones", peripheries=2];
  "route" [label="route\nConfigMap\nthe kind is not known\nif schema.spec.public"];
  "schema.status" [label="status\nof the instance", style=rounded];
  "schema" -> "prefix";
  "schema" -> "issuer";
  "prefix" -> "shards";
  "issuer" -> "route";
  "route" -> "shards" [style=dashed, label="deleteAfter"];
  "route" -> "schema.status";
}
`
	if got := g.Diagram().Dot(); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("got:\n%s", got)
	}
}
