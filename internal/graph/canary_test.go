package graph_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/instance/inventory"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/canary"
)

const typedSecret = `
kind: CustomResourceDefinition
spec:
  names: {kind: Secret}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            apiVersion: {type: string}
            kind: {type: string}
            metadata: {type: object}
            data: {type: object, additionalProperties: {type: string, format: byte}}
            stringData: {type: object, additionalProperties: {type: string}}
`

// TestDataOfSecretsIsNowhereButInChildren generates definitions over Secrets and composes instances
// of them. Each output with data of a Secret must be one that the compiler has found, and no
// message may have any.
func TestDataOfSecretsIsNowhereButInChildren(t *testing.T) {
	seen := newCanaries(t)
	for seed := range uint64(testkit.Size(200, 20_000)) {
		seen.check(t, rand.New(rand.NewPCG(seed, 1)), seed)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d definitions, %d compiled, %d clean; %d outputs with data, %d failures", seen.definitions, seen.compiled, seen.clean, seen.leaking, seen.failing)
	if seen.compiled < seen.definitions/4 || seen.clean == 0 || seen.leaking == 0 || seen.failing == 0 {
		t.Error("the generated definitions are all of one sort")
	}
}

// FuzzSecrets does the same with definitions that the fuzzer chooses.
func FuzzSecrets(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		seen := newCanaries(t)
		seen.check(t, rand.New(rand.NewPCG(a, b)), a)
	})
}

// canaries counts what definitions do: clean ones have no data of Secrets in outputs, according to
// the compiler, leaking ones had it there, and failing ones had an expression without a value.
type canaries struct {
	definitions, compiled, clean, leaking, failing int
	// typed are kinds with the schema of Secrets, untyped those without.
	typed, untyped graph.Kinds
}

func newCanaries(t testing.TB) *canaries {
	return &canaries{typed: commonKinds(t, typedSecret), untyped: commonKinds(t, "")}
}

func (s *canaries) check(t *testing.T, r *rand.Rand, seed uint64) {
	t.Helper()
	text := canary.Definition(r, "Fuzzed")
	d := definition(t, "spec:\n  "+strings.ReplaceAll(text, "\n", "\n  "))
	kinds := s.typed
	if r.IntN(4) == 0 {
		kinds = s.untyped
	}
	s.definitions++
	g, problems := graph.Compile(&d.Spec, kinds, graph.WithSecretOutputs(graph.WarnOfSecretOutputs))
	if g == nil {
		if len(problems) == 0 {
			t.Fatalf("no problems:\n%s", text)
		}
		return
	}
	s.compiled++
	if len(g.SecretOutputs) == 0 {
		s.clean++
	}
	if strict, _ := graph.Compile(&d.Spec, kinds); (strict != nil) != (len(g.SecretOutputs) == 0) {
		t.Fatalf("seed %d: refused and warned of differ:\n%s", seed, text)
	}
	facts := someInstance(g)
	facts.Instance.Object["spec"] = map[string]any{"text": "text", "list": []any{"x", "y"}}
	for range 4 {
		desired := g.Compose(facts)
		p := plan.Compute(desired, facts, plan.History{}, inventory.OwnerOf(facts.Instance, object.Definition{Name: "fuzzed"}, "v1"), v1alpha1.ChildManager)
		s.search(t, g, desired, p, facts, fmt.Sprintf("seed %d:\n%s", seed, text))
		facts = withCanaries(grown(facts, desired), desired)
	}
}

// withCanaries are facts in which everything that is needed is a Secret with the value.
func withCanaries(facts plan.Facts, desired plan.Desired) plan.Facts {
	all := make([]*unstructured.Unstructured, 0, 2)
	for _, document := range canary.Secrets("y") {
		o := &unstructured.Unstructured{}
		yamlInto(document, &o.Object)
		all = append(all, o)
	}
	for _, need := range desired.Needs {
		facts.External[need] = plan.Lookup{Object: all[0]}
		if need.Multiple {
			facts.External[need] = plan.Lookup{Objects: all}
		}
	}
	return facts
}

func yamlInto(text string, into any) {
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		panic(err)
	}
}

// search searches everything but the children's content.
func (s *canaries) search(t *testing.T, g *graph.Graph, desired plan.Desired, p plan.Plan, facts plan.Facts, of string) {
	t.Helper()
	leaks := func(what string, v any, found func(path string) bool) {
		raw, err := json.Marshal(v)
		if err != nil {
			raw = []byte(fmt.Sprint(v))
		}
		at := canary.Find(string(raw))
		if at == "" {
			return
		}
		for _, d := range g.SecretOutputs {
			if found(string(d.Path)) {
				s.leaking++
				return
			}
		}
		t.Fatalf("%s has data of a Secret: %s\n%s\nfindings: %v", what, at, of, g.SecretOutputs.Err())
	}
	for name, value := range desired.Status {
		leaks("status."+name, value, func(path string) bool {
			return strings.HasPrefix(path+".", "spec.schema.status."+name+".") || strings.HasPrefix(path, "spec.schema.status."+name+"[")
		})
	}
	inMetadata := func(path string) bool { return strings.Contains(path, ".metadata.") }
	for _, n := range desired.Nodes {
		if n.Object != nil {
			leaks("the metadata of "+n.ID, []any{n.Object.GetName(), n.Object.GetNamespace(), n.Object.GetLabels()}, inMetadata)
		}
		s.countFailing(n.Waits)
	}
	summary := plan.Summarize(p, facts.Now)
	var said []any
	for _, step := range p.Steps {
		said = append(said, step.Node, step.Problem, step.Waits, step.Unready, step.DriftMessage, step.SkipCause)
	}
	leaks("a message", []any{said, desired.Unresolved, desired.Problem, summary, fmt.Sprint(desired.Needs)}, inMetadata)
	if desired.AuthorConditions != nil {
		author := desired.AuthorConditions(condition.Set{{Type: v1alpha1.InstanceReady, Status: condition.False}})
		leaks("a condition", author.Conditions, func(path string) bool { return strings.HasPrefix(path, "spec.schema.status.conditions") })
		leaks("a problem of conditions", author.Problems, func(string) bool { return false })
	}
}

func (s *canaries) countFailing(waits []plan.Wait) {
	for _, w := range waits {
		if w.Reason == plan.EvaluationFailed {
			s.failing++
		}
	}
}
