package graph_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/plan"
)

// odd are unusual values for any field.
var odd = []any{
	nil, true, int64(-1), 1.5, "", " ", "${", "${}", "$${x}", "${schema}", "${schema.spec}", "${network}", "${map.metadata.name}",
	"${1 / 0}", "${[1][7]}", "${schema.spec.?x.y}", "é", "status.networkID", []any{}, []any{nil}, map[string]any{}, map[string]any{"": nil},
}

// TestMutatedDefinitions compiles the goldens with parts of them replaced by odd
// values, by parts of themselves and of each other.
func TestMutatedDefinitions(t *testing.T) {
	var trees []any
	definitions := goldenDefinitions(t)
	for _, path := range slices.Sorted(maps.Keys(definitions)) {
		trees = append(trees, tree(t, definitions[path]))
	}
	kinds := commonKinds(t, "")
	rapid.Check(t, func(t *rapid.T) {
		mutated := rapid.SampledFrom(trees).Draw(t, "definition")
		for range rapid.IntRange(1, 4).Draw(t, "mutations") {
			with := rapid.SampledFrom(odd).Draw(t, "odd")
			if rapid.Bool().Draw(t, "graft") {
				with = part(t, rapid.SampledFrom(trees).Draw(t, "from"))
			}
			mutated = mutate(t, mutated, with)
		}
		raw, err := json.Marshal(mutated)
		if err != nil {
			t.Fatal(err)
		}
		var d v1alpha1.ResourceGraphDefinition
		if json.Unmarshal(raw, &d) != nil {
			t.Skip("the API server would refuse it")
		}
		if g := checkCompiler(t, &d, kinds); g != nil {
			facts := someInstance(g)
			facts.Instance.Object["spec"] = rapid.SampledFrom(odd).Draw(t, "spec")
			desired := checkPass(t, g, facts)
			facts.Owned = drawChildren(t, desired)
			checkPass(t, g, facts)
		}
	})
}

// drawChildren gives some nodes an object, with a status of any shape.
func drawChildren(t *rapid.T, desired plan.Desired) map[string][]*unstructured.Unstructured {
	out := map[string][]*unstructured.Unstructured{}
	for _, n := range desired.Nodes {
		if !rapid.Bool().Draw(t, n.ID) {
			continue
		}
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetName("x")
		if n.Object != nil {
			o = n.Object.DeepCopy()
		}
		o.SetGroupVersionKind(n.Kind)
		for _, field := range []string{"spec", "status", "data"} {
			o.Object[field] = rapid.SampledFrom(append(slices.Clone(odd),
				map[string]any{"networkID": int64(7), "state": []any{}}, map[string]any{"conditions": []any{map[string]any{"type": "Ready"}}},
			)).Draw(t, field)
		}
		out[n.ID] = append(out[n.ID], o)
	}
	return out
}

func tree(t *testing.T, text string) any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// part draws a value from somewhere inside another.
func part(t *rapid.T, v any) any {
	below := children(v)
	if len(below) == 0 || rapid.IntRange(0, 5).Draw(t, "here") == 0 {
		return v
	}
	return part(t, rapid.SampledFrom(below).Draw(t, "part"))
}

func children(v any) []any {
	switch v := v.(type) {
	case map[string]any:
		var out []any
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, v[key])
		}
		return out
	case []any:
		return v
	}
	return nil
}

// mutate returns a copy of v with something inside it replaced, added or gone.
func mutate(t *rapid.T, v, with any) any {
	stop := rapid.IntRange(0, 7).Draw(t, "stop") == 0
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			return with
		}
		out := maps.Clone(v)
		key := rapid.SampledFrom(slices.Sorted(maps.Keys(v))).Draw(t, "key")
		switch {
		case !stop:
			out[key] = mutate(t, v[key], with)
		case rapid.Bool().Draw(t, "drop"):
			delete(out, key)
		default:
			out[key] = with
		}
		return out
	case []any:
		if len(v) == 0 {
			return []any{with}
		}
		i := rapid.IntRange(0, len(v)-1).Draw(t, "item")
		out := slices.Clone(v)
		switch {
		case !stop:
			out[i] = mutate(t, v[i], with)
		case rapid.Bool().Draw(t, "drop"):
			out = slices.Delete(out, i, i+1)
		default:
			out = append(out, with)
		}
		return out
	}
	return with
}
