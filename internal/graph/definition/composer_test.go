package definition

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/profile"
	"github.com/espalier-dev/espalier/internal/telemetry"
)

// TestCompositionsAreMeasured composes an instance as a reconcile does, whose conditions are evaluated last.
func TestCompositionsAreMeasured(t *testing.T) {
	var d v1alpha1.ResourceGraphDefinition
	if err := yaml.Unmarshal([]byte(`
spec:
  schema:
    kind: Web
    apiVersion: v1
    spec: {size: "integer | default=3"}
    status:
      double: "${schema.spec.size * 2}"
      conditions:
        - "${runtime.newCondition({type: 'Large', status: schema.spec.size > 2 ? 'True' : 'False'})}"
`), &d); err != nil {
		t.Fatal(err)
	}
	g, problems := graph.Compile(&d.Spec, graph.Kinds{})
	if problems != nil {
		t.Fatal(problems.Err())
	}
	web := schema.GroupVersionKind{Group: "kro.run", Version: "v1", Kind: "Web"}
	profiler := telemetry.NewProfiler(time.Now(), func() []schema.GroupVersionKind { return nil })
	ctx := profiler.Context(t.Context(), web)
	instance := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kro.run/v1", "kind": "Web", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"size": int64(3)}}}
	for range 3 { // the first is measured
		desired, err := composerOf(g, inventory.Overrides{}).Compose(ctx, plan.Facts{Instance: instance}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if conditions := desired.AuthorConditions(condition.Set{}); len(conditions.Problems) > 0 {
			t.Fatal(conditions.Problems)
		}
	}
	r := profile.Reading{Kinds: []profile.Kind{{Group: web.Group, Kind: web.Kind}}}
	profiler.Fill(&r, time.Now())
	texts := map[string]uint64{}
	for _, e := range r.Kinds[0].Expressions {
		texts[e.Field+" "+e.Text] = e.Evaluations
		if e.Time <= 0 || e.Cost == 0 {
			t.Errorf("%s took %s and cost %d", e.Text, e.Time, e.Cost)
		}
	}
	for _, want := range []string{"spec.schema.status.double schema.spec.size * 2", "spec.schema.status.conditions[0] runtime.newCondition({type: 'Large', status: schema.spec.size > 2 ? 'True' : 'False'})"} {
		if texts[want] != 1 {
			t.Errorf("%s was evaluated %d times: %v", want, texts[want], texts)
		}
	}
}
