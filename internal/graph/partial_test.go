package graph_test

import (
	"slices"
	"testing"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
)

// TestNamesOfABrokenDefinition checks that the names of expressions are known while others are half written.
func TestNamesOfABrokenDefinition(t *testing.T) {
	var spec v1alpha1.DefinitionSpec
	decode(t, `
schema: {apiVersion: v1, kind: Web, spec: {zones: "[]string"}, status: {name: "${configs.na"}}
resources:
- id: configs
  forEach:
  - zone: ${schema.spec.zones}
  - letter: ${zone.spl
  readyWhen: ["${each.da"]
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${zone + "}}
- id: other
  waitFor: {configs: {fields: [{path: status, rule: "self."}]}}
  template: {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}
`, &spec)
	p := graph.CompilePartially(&spec, nil)
	for path, want := range map[object.Path][]string{
		"spec.schema.status.name":                          {"configs", "other", "schema"},
		"spec.resources[0].forEach[0].zone":                {"configs", "other", "schema"},
		"spec.resources[0].forEach[1].letter":              {"configs", "other", "schema", "zone"},
		"spec.resources[0].template.metadata.name":         {"configs", "letter", "other", "schema", "zone"},
		"spec.resources[0].readyWhen[0]":                   {"configs", "each", "other", "schema"},
		"spec.resources[1].waitFor.configs.fields[0].rule": {"configs", "other", "schema", "self"},
		"spec.resources[9].template":                       {"configs", "other", "schema"},
	} {
		if got := p.EnvAt(path).Names(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if at, kind, ok := p.NodeWithID("other"); at != "spec.resources[1]" || kind.Kind != "ConfigMap" || !ok {
		t.Error(at, kind, ok)
	}
}
