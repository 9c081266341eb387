package graph

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/espalier-dev/espalier/internal/composition/functions/call"
)

func graphOf(resources ...any) map[string]any {
	return map[string]any{"apiVersion": nativeVersion, "kind": nativeKind, "spec": map[string]any{"resources": resources}}
}

func configMap(id string, data map[string]any) map[string]any {
	return map[string]any{"id": id, "template": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data}}
}

func composite(spec map[string]any) call.State {
	return call.State{Composite: call.Resource{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "App", "metadata": map[string]any{"name": "app", "namespace": "prod"}, "spec": spec}}}
}

// TestManyGraphsAreForgotten lets more graphs be composed than are remembered, by several
// callers at once: each gets its own.
func TestManyGraphsAreForgotten(t *testing.T) {
	f := New(Native)
	var all sync.WaitGroup
	for caller := range 4 {
		all.Go(func() {
			for i := range maxCached + 20 {
				word := fmt.Sprintf("%d-%d", caller%2, i)
				r := f.Run(call.Request{Input: graphOf(configMap("a", map[string]any{"word": word})), Observed: composite(nil)})
				data, _ := r.Desired.Resources["a"].Object["data"].(map[string]any)
				if data["word"] != word {
					t.Errorf("want %s, got %v, %v", word, data, r.Results)
					return
				}
			}
		})
	}
	all.Wait()
	if n := len(f.graphs.values); n != maxCached || len(f.graphs.order) != maxCached {
		t.Errorf("%d graphs are remembered, in an order of %d", n, len(f.graphs.order))
	}
}

// TestASchemaThatChangesIsCheckedAgain although the input is the same.
func TestASchemaThatChangesIsCheckedAgain(t *testing.T) {
	f := New(Native)
	run := func(field string) call.Response {
		schema := map[string]any{"type": "object", "properties": map[string]any{"spec": map[string]any{
			"type": "object", "properties": map[string]any{field: map[string]any{"type": "string"}},
		}}}
		return f.Run(call.Request{
			Input:    graphOf(configMap("a", map[string]any{"x": "${schema.spec.x}"})),
			Observed: composite(map[string]any{"x": "1"}),
			Required: call.Required{SchemasSupported: true, Schemas: map[string]call.Schema{
				"v1/ConfigMap":       {},
				"example.org/v1/App": {Digest: field, Read: func() (map[string]any, error) { return schema, nil }},
			}},
		})
	}
	for range 2 {
		if r := run("x"); len(r.Results) > 0 || r.Desired.Resources["a"].Object == nil {
			t.Errorf("want it composed, got %v", r.Results)
		}
		if r := run("y"); len(r.Results) != 1 || !strings.Contains(r.Results[0].Message, `undefined field 'x' in schema.spec`) {
			t.Errorf("want to be told, got %v", r.Results)
		}
	}
}

func TestANameThatCannotBe(t *testing.T) {
	cases := map[string]map[string]any{
		"an invalid namespace: \"A b\"": {"name": "x", "namespace": "${'A b'}"},
		"an invalid name: \"a/b\"":      {"name": "${'a/b'}"},
		"an invalid name: \"a b\"":      {"name": "${'a b'}"},
	}
	for want, metadata := range cases {
		r := New(Native).Run(call.Request{
			Input:    graphOf(map[string]any{"id": "other", "externalRef": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}),
			Observed: composite(nil),
		})
		if len(r.Results) != 1 || !strings.Contains(r.Results[0].Message, want) || len(r.Requirements.Resources) > 0 {
			t.Errorf("%s: got %v, %v", want, r.Results, r.Requirements)
		}
	}
}
