package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/object"
)

// ladder is pairs of nodes that both depend on both nodes of the pair before: the last one can be reached in
// 2^steps ways, so that whatever follows each of them does not end. In the text of a node, ID is its name,
// FIELD a field that each node has, and ABOVE an expression with the fields of the pair before.
func ladder(steps int, node, field string) string {
	var out []string
	for i := range steps {
		above := "'first'"
		if i > 0 {
			above = fmt.Sprintf("a%d.%s + '-' + b%[1]d.%[2]s", i-1, field)
		}
		for _, side := range []string{"a", "b"} {
			out = append(out, strings.NewReplacer("ID", fmt.Sprint(side, i), "ABOVE", above).Replace(node))
		}
	}
	return strings.Join(out, ", ")
}

func TestGraphsWithManyWaysToTheSameNode(t *testing.T) {
	const steps = 60
	const configMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: ID}, data: {above: "${ABOVE}"}}`
	for shape, tc := range map[string]struct{ node, field string }{
		"children":                   {"{id: ID, template: " + configMap + "}", "metadata.name"},
		"children that are retained": {"{id: ID, deletionPolicy: Retain, template: " + configMap + "}", "metadata.name"},
		"children with conditions":   {`{id: ID, includeWhen: ["${schema.spec.enabled}"], template: ` + configMap + "}", "metadata.name"},
		"variables":                  {`{id: ID, value: {x: "${(ABOVE).substring(0, 5)}"}}`, "x"},
		"variables without a value":  {`{id: ID, value: {x: "${(none.data.x + ABOVE).substring(0, 5)}"}}`, "x"},
		"references":                 {`{id: ID, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${ABOVE}"}}}`, "data.above"},
	} {
		t.Run(shape, func(t *testing.T) {
			d := definition(t, "\nspec:\n  schema: {kind: Web, apiVersion: v1, spec: {enabled: boolean}, status: {all: \"${"+fmt.Sprintf("a%d.%s", steps-1, tc.field)+"}\"}}\n  resources: [{id: none, externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: none}}}, "+ladder(steps, tc.node, tc.field)+"]\n")
			g := compiled(t, d, commonKinds(t, ""))
			g.Diagram()
			passes := runPasses(t, g, object.Definition{Name: "web"}, "instance: {metadata: {name: x, namespace: prod}, spec: {enabled: true}}\npasses: [{}, {}, {}]")
			for _, pass := range passes {
				if len(pass) > 1<<20 {
					t.Errorf("a pass is described by %d bytes", len(pass))
				}
			}
		})
	}
}
