package observe_test

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// TestAGraphIsTheSourceOfItsFields, also those of nodes of a graph in it.
func TestAGraphIsTheSourceOfItsFields(t *testing.T) {
	g := testkit.Parse(t, `
apiVersion: kro.run/v1alpha1
kind: Graph
metadata: {name: shop, namespace: apps}
spec:
  nodes:
    - id: back
      graph:
        nodes:
          - {id: a, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}}
          - {id: b, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {of: "${a.metadata.name}"}}}
`)[0]
	source, isSet := observe.Compile(g).SourceOf("back/b", nil, []any{"data", "of"})
	if !isSet || source.Path != "spec.nodes[0].graph.nodes[1].template.data.of" || len(source.Expressions) != 1 {
		t.Errorf("%v, %v", source, isSet)
	}
	if read := source.Expressions[0].Program.Refs()[0].Root; read != "back/a" {
		t.Errorf("it reads %s", read)
	}
}
