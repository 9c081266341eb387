package functions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/composition/trace"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/functions"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

const tracedPipeline = `
- step: environment
  functionRef: {name: function-environment-configs}
  input:
    apiVersion: environmentconfigs.fn.crossplane.io/v1beta1
    kind: Input
    spec:
      defaultData: {tier: bronze, network: {cidr: none}}
      environmentConfigs:
      - {type: Reference, ref: {name: one}}
      - {type: Reference, ref: {name: two}, toFieldPath: network}
- step: compose
  functionRef: {name: function-patch-and-transform}
  input:
    apiVersion: pt.fn.crossplane.io/v1beta1
    kind: Resources
    environment:
      patches:
      - {type: FromCompositeFieldPath, fromFieldPath: spec.zone, toFieldPath: zone}
    patchSets:
    - name: common
      patches: [{fromFieldPath: spec.zone, toFieldPath: metadata.labels.zone}]
    resources:
    - name: web
      base: {apiVersion: example.org/v1, kind: Web, spec: {replicas: 1, zone: none, ports: [{name: a, open: false}, {name: b, open: false}], tags: {base: x}}}
      patches:
      - {type: PatchSet, patchSetName: common}
      - {fromFieldPath: spec.size, toFieldPath: spec.replicas, transforms: [{type: math, math: {type: Multiply, multiply: 2}}]}
      - {type: FromEnvironmentFieldPath, fromFieldPath: zone, toFieldPath: spec.zone}
      - {fromFieldPath: spec.open, toFieldPath: 'spec.ports[*].open'}
      - {fromFieldPath: spec.tags, toFieldPath: spec.tags, policy: {toFieldPath: MergeObjects}}
      - type: CombineFromComposite
        combine: {strategy: string, variables: [{fromFieldPath: metadata.name}, {fromFieldPath: spec.size}], string: {fmt: "%s-%d"}}
        toFieldPath: spec.id
      - {type: FromEnvironmentFieldPath, fromFieldPath: network.cidr, toFieldPath: spec.cidr}
      - {type: ToCompositeFieldPath, fromFieldPath: status.address, toFieldPath: status.address}
- step: dummy
  functionRef: {name: function-dummy}
  input:
    apiVersion: dummy.fn.crossplane.io/v1beta1
    kind: Response
    response: {desired: {resources: {extra: {resource: {apiVersion: v1, kind: ConfigMap, data: {extra: yes}}}}}}
- step: remote
  functionRef: {name: function-remote}
- step: graph
  functionRef: {name: function-graph}
  input:
    apiVersion: graph.fn.espalier.dev/v1alpha1
    kind: Graph
    spec:
      resources:
      - {id: db, template: {apiVersion: example.org/v1, kind: Database, spec: {size: "${schema.spec.size * 10}", engine: pg}}}
      status: {db: "${schema.spec.zone}"}
- step: ready
  functionRef: {name: function-auto-ready}
`

const tracedComposite = `{apiVersion: example.org/v1, kind: Shop, metadata: {name: shop}, spec: {size: 3, zone: eu, open: true, tags: {team: a}}}`

// configs are the EnvironmentConfigs.
type configs struct{}

func (configs) Resources(_ context.Context, s *fnv1.ResourceSelector) ([]map[string]any, bool, error) {
	data := map[string]any{"one": map[string]any{"tier": "gold"}, "two": map[string]any{"cidr": "10.0.0.0/8"}}[s.GetMatchName()]
	return []map[string]any{{"apiVersion": "apiextensions.crossplane.io/v1beta1", "kind": "EnvironmentConfig", "metadata": map[string]any{"name": s.GetMatchName()}, "data": data}}, true, nil
}

func (configs) Schema(context.Context, *fnv1.SchemaSelector) (map[string]any, bool, error) {
	return nil, true, nil
}

// passing stands for functions that run elsewhere.
type passing struct{}

func (passing) Run(_ context.Context, _ string, r *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	return &fnv1.RunFunctionResponse{Desired: r.GetDesired(), Context: r.GetContext()}, nil
}

func tracedSteps(t *testing.T, text string) []trace.Step {
	t.Helper()
	var written []struct {
		Step        string
		FunctionRef struct{ Name string }
		Input       map[string]any
	}
	var composite map[string]any
	if err := yaml.Unmarshal([]byte(text), &written); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(tracedComposite), &composite); err != nil {
		t.Fatal(err)
	}
	var steps []pipeline.Step
	for _, w := range written {
		raw, err := json.Marshal(w.Input)
		if err != nil {
			t.Fatal(err)
		}
		s := pipeline.Step{Name: w.Step, Function: w.FunctionRef.Name}
		if w.Input != nil {
			if s.Input, err = structs.FromJSON(raw); err != nil {
				t.Fatal(err)
			}
		}
		steps = append(steps, s)
	}
	observed, err := pipeline.NewObservedState(pipeline.Observation{Object: composite}, map[string]pipeline.Observation{
		"web": {Object: map[string]any{"apiVersion": "example.org/v1", "kind": "Web", "metadata": map[string]any{"name": "web-1"}, "status": map[string]any{"address": "1.2.3.4"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var here pipeline.Functions
	functions.Register(&here)
	var run []pipeline.Recorded
	p := pipeline.Pipeline{Runner: pipeline.FirstOf{&here, passing{}}, Fetcher: configs{}, Record: func(r pipeline.Recorded) { run = append(run, r) }}
	p.Run(t.Context(), steps, pipeline.Request{Observed: observed})
	out, err := functions.Steps(run, func(name string) bool { return functions.BuiltIn()[name] == nil })
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFunctionsSayWhatWritesAField(t *testing.T) {
	steps := tracedSteps(t, tracedPipeline)
	for _, s := range steps {
		if s.Failed != "" {
			t.Fatalf("step %s: %s", s.Name, s.Failed)
		}
	}
	web, composite, environment := trace.Object{Kind: trace.Composed, Resource: "web"}, trace.Object{Kind: trace.Composite}, trace.Object{Kind: trace.Environment}
	cases := map[string]struct {
		to   trace.Object
		path object.Path
		want []string
	}{
		"a base": {web, "kind", []string{"compose resources[0].base.kind (base of web) = Web"}},
		"a patch with a transform": {web, "spec.replicas", []string{
			"compose resources[0].base.spec.replicas (base of web) = 1",
			"compose resources[0].patches[1] (FromCompositeFieldPath) composite spec.size 3 math 6 = 6",
		}},
		"a patch of a set": {web, "metadata.labels.zone", []string{"compose patchSets[0].patches[0] (FromCompositeFieldPath of patch set common, for resources[0]) composite spec.zone eu = eu"}},
		"the environment": {web, "spec.zone", []string{
			"compose resources[0].base.spec.zone (base of web) = none",
			"compose resources[0].patches[2] (FromEnvironmentFieldPath) environment zone eu = eu",
		}},
		"a patch of all items": {web, "spec.ports[1].open", []string{
			"compose resources[0].base.spec.ports[1].open (base of web) = false",
			"compose resources[0].patches[3] (FromCompositeFieldPath) composite spec.open true = true",
		}},
		"another field of these items": {web, "spec.ports[1].name", []string{"compose resources[0].base.spec.ports[1].name (base of web) = b"}},
		"a merge":                      {web, "spec.tags.team", []string{"compose resources[0].patches[4] (FromCompositeFieldPath) composite spec.tags map[team:a] = a"}},
		"what a merge leaves": {web, "spec.tags.base", []string{
			"compose resources[0].base.spec.tags.base (base of web) = x",
			"compose resources[0].patches[4] (FromCompositeFieldPath) composite spec.tags map[team:a] = x",
		}},
		"a combination":              {web, "spec.id", []string{"compose resources[0].patches[5] (CombineFromComposite) composite metadata.name shop composite spec.size 3 combine shop-3 = shop-3"}},
		"a name that stays":          {web, "metadata.name", []string{"compose resources[0] (kept, as it is observed) = web-1"}},
		"a response in an input":     {trace.Object{Kind: trace.Composed, Resource: "extra"}, "data.extra", []string{"dummy response.desired.resources.extra.resource.data.extra (response) = true"}},
		"a field that nothing sets":  {web, "spec.nothing", nil},
		"a resource of nobody":       {trace.Object{Kind: trace.Composed, Resource: "x"}, "spec", nil},
		"an expression":              {trace.Object{Kind: trace.Composed, Resource: "db"}, "spec.size", []string{"graph spec.resources[0].template.spec.size (${schema.spec.size * 10}) composite spec.size 3 = 30"}},
		"a literal of a graph":       {trace.Object{Kind: trace.Composed, Resource: "db"}, "spec.engine", []string{"graph spec.resources[0].template.spec.engine (literal) = pg"}},
		"a status by an expression":  {composite, "status.db", []string{"graph spec.status.db (${schema.spec.zone}) composite spec.zone eu = eu"}},
		"a status by a patch":        {composite, "status.address", []string{"compose resources[0].patches[7] (ToCompositeFieldPath) resource status.address 1.2.3.4 = 1.2.3.4"}},
		"default data, and a config": {environment, "tier", []string{"environment spec.defaultData (default data) = bronze", "environment spec.environmentConfigs[0] (EnvironmentConfig) EnvironmentConfig data.tier gold = gold"}},
		"a config below a field": {environment, "network.cidr", []string{
			"environment spec.defaultData (default data) = none",
			"environment spec.environmentConfigs[1] (EnvironmentConfig) EnvironmentConfig data.cidr 10.0.0.0/8 = 10.0.0.0/8",
		}},
		"a patch of the environment": {environment, "zone", []string{"compose environment.patches[0] (FromCompositeFieldPath) composite spec.zone eu = eu"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, w := range trace.Of(steps, tc.to, tc.path.Segments()) {
				text := fmt.Sprintf("%s %s (%s)", w.Step.Name, w.Place, w.What)
				for _, r := range w.Reads {
					text += fmt.Sprintf(" %s %s %v", r.Of.Kind, r.Field, r.Value)
				}
				for _, x := range w.Transforms {
					text += fmt.Sprintf(" %s %v", x.Type, x.Value)
				}
				got = append(got, fmt.Sprintf("%s = %v", text, w.Value))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTheLastWriteSetsTheValue checks every field that the pipeline sets: the last write has its value.
func TestTheLastWriteSetsTheValue(t *testing.T) {
	steps := tracedSteps(t, tracedPipeline)
	last, fields := steps[len(steps)-1].After, 0
	var check func(of trace.Object, path []any, value any)
	check = func(of trace.Object, path []any, value any) {
		if below, isObject := value.(map[string]any); isObject && len(below) > 0 {
			for name, v := range below {
				check(of, append(append([]any{}, path...), name), v)
			}
			return
		}
		fields++
		writes := trace.Of(steps, of, path)
		if len(writes) == 0 || !cmp.Equal(writes[len(writes)-1].Value, value) {
			t.Errorf("%v %v is %v, and its writes are %v", of, path, value, writes)
		}
	}
	for name, o := range last.Resources {
		check(trace.Object{Kind: trace.Composed, Resource: name}, nil, o)
	}
	check(trace.Object{Kind: trace.Environment}, nil, last.Environment)
	if fields < 15 {
		t.Errorf("only %d fields are set: %v", fields, last)
	}
}

func TestAFieldThatIsRemovedHasNoWrites(t *testing.T) {
	steps := tracedSteps(t, `
- step: compose
  functionRef: {name: function-patch-and-transform}
  input: {apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, resources: [{name: web, base: {apiVersion: v1, kind: Web, spec: {a: b}}}]}
- step: replace
  functionRef: {name: function-dummy}
  input: {apiVersion: dummy.fn.crossplane.io/v1beta1, kind: Response, response: {desired: {resources: {web: {resource: {apiVersion: v1, kind: Web}}}}}}
`)
	web := trace.Object{Kind: trace.Composed, Resource: "web"}
	if writes := trace.Of(steps, web, []any{"spec", "a"}); len(writes) > 0 {
		t.Errorf("the field is written by %v", writes)
	}
	if writes := trace.Of(steps, web, []any{"kind"}); len(writes) != 2 {
		t.Errorf("kind is written by %v", writes)
	}
}

func TestStepsThatFailOrRunElsewhere(t *testing.T) {
	steps := tracedSteps(t, `
- {step: remote, functionRef: {name: function-remote}}
- step: compose
  functionRef: {name: function-patch-and-transform}
  input: {apiVersion: pt.fn.crossplane.io/v1beta1, kind: Resources, resources: [{name: web, patches: []}]}
`)
	if len(steps) != 2 || !steps[0].Elsewhere || steps[0].Failed != "" || !strings.Contains(steps[1].Failed, "has no base template") || steps[1].Elsewhere {
		t.Errorf("got %+v", steps)
	}
	if writes := trace.Of(steps, trace.Object{Kind: trace.Composed, Resource: "web"}, []any{"spec"}); len(writes) > 0 {
		t.Errorf("a step that failed writes %v", writes)
	}
}
