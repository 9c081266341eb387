package graph_test

import (
	"testing"

	"github.com/espalier-dev/espalier/internal/graph"
)

func TestTheSourceOfALabelIsTheTemplateOrThePropagation(t *testing.T) {
	d := definition(t, `
metadata: {name: team}
spec:
  propagate: {labels: [team, cost.example.com/*], annotations: ["*"]}
  schema: {kind: Team, apiVersion: v1alpha1}
  resources:
    - id: own
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: own, labels: {own: x, team: own}}}
`)
	g, problems := graph.Compile(&d.Spec, commonKinds(t, ""))
	if problems != nil {
		t.Fatal(problems)
	}
	for _, c := range []struct{ field, key, want string }{
		{"labels", "team", "spec.resources[0].template.metadata.labels.team"},
		{"labels", "cost.example.com/center", "spec.propagate.labels[1]"},
		{"labels", "other", ""},
		{"annotations", "note", "spec.propagate.annotations[0]"},
		{"annotations", "espalier.dev/applied", ""},
	} {
		source, isSet := g.SourceOf("own", map[string]any{}, []any{"metadata", c.field, c.key})
		if isSet != (c.want != "") || isSet && string(source.Path) != c.want {
			t.Errorf("%s %s: got %v, %s, want %q", c.field, c.key, isSet, source.Path, c.want)
		}
	}
}
