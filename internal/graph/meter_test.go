package graph_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/graph/expr"
)

// TestEvaluationsAreMeasured has a clock that goes on by a second whenever it is read.
func TestEvaluationsAreMeasured(t *testing.T) {
	g := compiled(t, definition(t, `
spec:
  schema: {kind: Measured, apiVersion: v1, spec: {names: "[]string"}, status: {size: "${size(schema.spec.names)}"}}
  resources:
    - id: copies
      forEach: [{name: "${schema.spec.names.filter(n, n != 'b')}"}]
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${name + '-x'}"}, data: {path: "${schema.metadata.name}"}}
    - {id: late, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: late}, data: {x: "${copies[5].metadata.name + 'x'}"}}}
`), commonKinds(t, ""))
	facts := someInstance(g)
	facts.Instance.Object["spec"] = map[string]any{"names": []any{"a", "b", "c"}}
	var now time.Duration
	meter := expr.NewMeter(func() time.Duration { now += time.Second; return now })
	desired, err := g.ComposeWithin(func() error { return nil }, meter, facts)
	if err != nil {
		t.Fatal(err)
	}
	taken := func() map[string]expr.Spent {
		out := map[string]expr.Spent{}
		for p, spent := range meter.Take() {
			out[p.At().String()+" "+p.Source()] = spent
		}
		return out
	}
	got := taken()
	var cost uint64
	for name, s := range got {
		if s.Cost == 0 || s.Time != time.Duration(s.Evaluations)*time.Second {
			t.Errorf("%s: %d evaluations took %s and cost %d", name, s.Evaluations, s.Time, s.Cost)
		}
		cost += s.Cost
		s.Cost, s.Time = 0, 0
		got[name] = s
	}
	want := map[string]expr.Spent{
		"spec.resources[0].forEach[0].name schema.spec.names.filter(n, n != 'b')": {Evaluations: 1},
		"spec.resources[0].template.metadata.name name + '-x'":                    {Evaluations: 2},
		"spec.schema.status.size size(schema.spec.names)":                         {Evaluations: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if cost > desired.Cost {
		t.Errorf("the expressions cost %d, and the composition %d", cost, desired.Cost)
	}
	if again := taken(); len(again) > 0 {
		t.Errorf("the same is taken twice: %v", again)
	}
}
