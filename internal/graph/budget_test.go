package graph_test

import (
	gocmp "cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

const greedy = `
spec:
  schema: {kind: Greedy, apiVersion: v1}
  resources:
    - {id: first, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {x: "${string(lists.range(100).map(i, i * i).size())}"}}}
    - {id: second, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${first.metadata.name}-2"}, data: {x: "${'yyyyyyyyyy'.replace('y', 'zzzzzzzzzz')}"}}}
    - {id: rest, forEach: [{i: "${lists.range(3)}"}], template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "rest-${string(i)}"}}}
`

func TestAnInstanceIsComposedWithinItsLimits(t *testing.T) {
	all := []string{"first", "rest", "rest", "rest"}
	cases := map[string]struct {
		limits   plan.Limits
		composed []string
		exceeded []plan.Limit
		message  string
	}{
		"The defaults":     {plan.Limits{}, all, nil, ""},
		"Cost":             {plan.Limits{Cost: 20}, nil, []plan.Limit{plan.CostLimit}, "the expressions of one reconcile exceed a CEL cost of 20 together (instanceLimits.celCost)"},
		"Bytes":            {plan.Limits{Bytes: 40}, nil, []plan.Limit{plan.BytesLimit}, "the values of the expressions exceed 40 bytes together (instanceLimits.bytes)"},
		"Objects":          {plan.Limits{Objects: 3}, nil, []plan.Limit{plan.ObjectsLimit}, "with the 3 items of rest the instance has 4 objects, over the limit of 3 (instanceLimits.objects)"},
		"As many objects":  {plan.Limits{Objects: 5}, all, nil, ""},
		"Enough, but once": {plan.Limits{Cost: 100_000}, all, nil, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := compiled(t, definition(t, greedy), commonKinds(t, ""))
			facts := someInstance(g)
			facts.Limits = tc.limits
			desired := g.Compose(facts)
			var composed []string
			messages := []string{desired.Problem.Message}
			for _, n := range desired.Nodes {
				if n.Object != nil {
					composed = append(composed, gocmp.Or(n.Collection, n.ID))
				}
				messages = append(messages, n.Refusal.Message)
				for _, w := range n.Waits {
					messages = append(messages, w.Detail)
				}
			}
			slices.Sort(composed)
			if diff := cmp.Diff(tc.composed, composed) + cmp.Diff(tc.exceeded, desired.Exceeded); diff != "" {
				t.Errorf("composed, and exceeded limits (-want +got):\n%s", diff)
			}
			if !strings.Contains(strings.Join(messages, "\n"), tc.message) {
				t.Errorf("want a message %q, got %q", tc.message, messages)
			}
		})
	}
}

func TestAStatusStaysWhenALimitIsExceeded(t *testing.T) {
	g := compiled(t, definition(t, `
spec:
  schema: {kind: Greedy, apiVersion: v1, status: {total: "${size(m.data.x)}"}}
  resources:
    - {id: m, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {x: "${string(lists.range(100).map(i, i * i).size())}"}}}
`), commonKinds(t, ""))
	facts := someInstance(g)
	facts.Instance.Object["status"] = map[string]any{"total": int64(7)}
	facts.Limits.Cost = 1
	if diff := cmp.Diff(map[string]any{"total": int64(7)}, g.Compose(facts).Status); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCompositionEndsWithItsContext(t *testing.T) {
	g := compiled(t, definition(t, greedy), commonKinds(t, ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.ComposeWithin(ctx.Err, someInstance(g)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestADefinitionCreatesNoInstancesOfItsOwnKindWithoutEnd(t *testing.T) {
	const refused = "spec.resources[0].template: creates another Node for each Node, without end: set includeWhen, or refer to an existing Node with externalRef"
	cases := map[string]struct{ resource, want string }{
		"Each instance creates one": {`{id: next, template: {apiVersion: kro.run/v1, kind: Node, metadata: {name: next}}}`, refused},
		"In another version":        {`{id: next, template: {apiVersion: kro.run/v2, kind: Node, metadata: {name: next}}}`, refused},
		"Some do":                   {`{id: next, includeWhen: ["${schema.spec.depth > 0}"], template: {apiVersion: kro.run/v1, kind: Node, metadata: {name: next}, spec: {depth: "${schema.spec.depth - 1}"}}}`, ""},
		"As many as a list has":     {`{id: next, forEach: [{i: "${lists.range(schema.spec.depth)}"}], template: {apiVersion: kro.run/v1, kind: Node, metadata: {name: "next-${string(i)}"}}}`, ""},
		"After one that some have":  {`{id: next, template: {apiVersion: kro.run/v1, kind: Node, metadata: {name: "${m.metadata.name}"}}}, {id: m, includeWhen: ["${schema.spec.depth > 0}"], template: {apiVersion: v1, kind: ConfigMap, metadata: {name: m}}}`, ""},
		"It refers to one":          {`{id: next, externalRef: {apiVersion: kro.run/v1, kind: Node, metadata: {name: next}}}`, ""},
		"A kind of another group":   {`{id: next, template: {apiVersion: example.com/v1, kind: Node, metadata: {name: next}}}`, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := definition(t, "spec:\n  schema: {kind: Node, apiVersion: v1, spec: {depth: integer}}\n  resources: ["+tc.resource+"]\n")
			_, problems := graph.Compile(&d.Spec, commonKinds(t, ""))
			got := ""
			if problems != nil {
				got = problems.Err().Error()
			}
			if got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
		})
	}
}

// TestCopiesOfALargeFieldAreLimited: each expression costs next to nothing, and copies a field that
// whoever writes the instance makes large.
func TestCopiesOfALargeFieldAreLimited(t *testing.T) {
	const m = `{id: m, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: m}}}`
	cases := map[string]struct{ status, resources string }{
		"In the status":   {strings.Repeat(`, f%d: "${schema.spec.big}"`, 100), m},
		"In a list":       {"", `{id: each2, forEach: [{a: "${lists.range(100)}"}, {b: "${a >= 0 ? [schema.spec.big] : []}"}], template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "x-${string(a)}-${string(b.size())}"}}}`},
		"In a text":       {"", `{id: m, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {x: "` + strings.Repeat("${schema.spec.text}", 100) + `"}}}`},
		"In templates":    {"", `{id: m, forEach: [{a: "${lists.range(100)}"}], template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "x-${string(a)}"}, data: {x: ` + strings.Repeat("y", 2000) + `}}}`},
		"In lists of CEL": {"", `{id: m, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: m}, data: {x: "${string(` + strings.Repeat("[schema.spec.big].size() + ", 100) + `0)}"}}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			status := ""
			for i := range strings.Count(tc.status, "%d") {
				status += fmt.Sprintf(`, f%d: "${schema.spec.big}"`, i)
			}
			g := compiled(t, definition(t, "spec:\n  schema: {kind: Greedy, apiVersion: v1, spec: {big: '[]integer', text: string}, status: {fixed: \"${'x'}\""+status+"}}\n  resources: ["+tc.resources+"]\n"), commonKinds(t, ""))
			facts := someInstance(g)
			facts.Instance.Object["spec"] = map[string]any{"big": slices.Repeat([]any{int64(1)}, 1000), "text": strings.Repeat("x", 2000)}
			facts.Limits.Bytes = 100_000
			desired := g.Compose(facts)
			exceeded := slices.Contains(desired.Exceeded, plan.BytesLimit)
			if want := name != "In lists of CEL"; exceeded != want { // CEL copies nothing: only its result is a value
				t.Errorf("exceeded: %t, problem %v", exceeded, desired.Problem)
			}
		})
	}
}
