package graph_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/graph"
)

func TestInstancesOfTheirOwnKind(t *testing.T) {
	const (
		again  = `{id: again, template: {apiVersion: kro.run/v1, kind: Web, metadata: {name: "${schema.metadata.name}-again-${before.metadata.name}"}}}`
		before = `{id: before, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: before}}}`
	)
	cases := map[string]struct {
		resources string
		endless   bool
	}{
		"always":                             {before + ", " + again, true},
		"with a condition":                   {before + ", " + strings.Replace(again, "{id: again", `{id: again, includeWhen: ["${schema.spec.enabled}"]`, 1), false},
		"after a child with a condition":     {strings.Replace(before, "{id: before", `{id: before, includeWhen: ["${schema.spec.enabled}"]`, 1) + ", " + again, false},
		"one for each name of the instance":  {before + `, {id: again, forEach: [{x: "${schema.spec.names}"}], template: {apiVersion: kro.run/v1, kind: Web, metadata: {name: "${x}"}}}`, false},
		"after a collection, also an empty":  {`{id: all, forEach: [{x: "${schema.spec.names}"}], template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${x}"}}}, {id: before, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "b-${string(all.size())}"}}}, ` + again, true},
		"an instance that it only refers to": {`{id: before, externalRef: {apiVersion: kro.run/v1, kind: Web, metadata: {name: other}}}`, false},
		"below many ways to the same child":  {ladder(100, `{id: ID, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "ID-${ABOVE}"}}}`, "metadata.name") + ", " + strings.ReplaceAll(again, "before", "a99"), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := definition(t, "\nspec:\n  schema: {kind: Web, apiVersion: v1, spec: {enabled: boolean, names: '[]string'}}\n  resources: ["+tc.resources+"]\n")
			_, problems := graph.Compile(&d.Spec, commonKinds(t, ""))
			if endless := strings.Contains(fmt.Sprint(problems.Err()), "without end"); endless != tc.endless || !endless && problems != nil {
				t.Errorf("endless %v: %v", endless, problems.Err())
			}
		})
	}
}
