package functions

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	catalog "github.com/espalier-dev/espalier/internal/program/functions/packages"
	"github.com/espalier-dev/espalier/internal/testkit"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// schemas has the schemas of kinds, and no objects.
type schemas func(schema.GroupVersionKind) (map[string]any, error)

func (s schemas) Resources(context.Context, *fnv1.ResourceSelector) ([]map[string]any, bool, error) {
	return nil, true, nil
}

func (s schemas) Schema(_ context.Context, selector *fnv1.SchemaSelector) (map[string]any, bool, error) {
	found, err := s(schema.FromAPIVersionAndKind(selector.GetApiVersion(), selector.GetKind()))
	return found, true, err
}

// TestAGraphIsTypedByTheServersSchemas as this program resolves them, and as the server
// writes them, where parts are references that cannot be followed.
func TestAGraphIsTypedByTheServersSchemas(t *testing.T) {
	w := newTestCatalog(t, catalog.Options{})
	w.await(t, "functions are known", func() bool { return w.Functions.Route("function-graph").Backend == catalog.BackendBuiltIn })
	documents := discovery.NewDiscoveryClientForConfigOrDie(testkit.ExclusiveServer(t)).OpenAPIV3()
	resolved := func(gvk schema.GroupVersionKind) (map[string]any, error) {
		kind, known, err := w.Kinds.Lookup(t.Context(), gvk)
		if err != nil || !known || kind.Schema == nil {
			return nil, err
		}
		data, err := json.Marshal(kind.Schema)
		if err != nil {
			return nil, err
		}
		var out map[string]any
		return out, json.Unmarshal(data, &out)
	}
	written := func(gvk schema.GroupVersionKind) (map[string]any, error) {
		paths, err := documents.Paths()
		if err != nil {
			return nil, err
		}
		path := "apis/" + gvk.GroupVersion().String()
		if gvk.Group == "" {
			path = "api/" + gvk.Version
		}
		document, ok := paths[path]
		if !ok {
			return nil, nil
		}
		raw, err := document.Schema("application/json")
		if err != nil {
			return nil, err
		}
		var all struct {
			Components struct{ Schemas map[string]map[string]any }
		}
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, err
		}
		for name, s := range all.Components.Schemas {
			if strings.HasSuffix(name, "."+gvk.Kind) && s["x-kubernetes-group-version-kind"] != nil {
				return s, nil
			}
		}
		return nil, nil
	}
	run := func(t *testing.T, known schemas, replicas string) pipeline.Result {
		t.Helper()
		var input map[string]any
		err := yaml.Unmarshal([]byte(`
apiVersion: graph.fn.espalier.dev/v1alpha1
kind: Graph
spec:
  resources:
  - id: web
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {labels: {app: "${schema.metadata.name}"}}
      spec:
        replicas: `+replicas+`
        selector: {matchLabels: {app: web}}
        template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "${settings.data.image}"}]}}
  - id: settings
    template: {apiVersion: v1, kind: ConfigMap, data: {image: x}}
  - id: definition
    template: {apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a.b.c}, spec: {group: b.c}}
`), &input)
		if err != nil {
			t.Fatal(err)
		}
		given, err := structs.ToStruct(input)
		if err != nil {
			t.Fatal(err)
		}
		observed, err := pipeline.NewObservedState(pipeline.Observation{Object: map[string]any{
			"apiVersion": "example.org/v1", "kind": "App", "metadata": map[string]any{"name": "app"}, "spec": map[string]any{"replicas": 3},
		}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := &pipeline.Pipeline{Runner: w.Functions, Fetcher: known}
		return p.Run(t.Context(), []pipeline.Step{{Name: "graph", Function: "function-graph", Input: given}}, pipeline.Request{Observed: observed})
	}
	for name, known := range map[string]schemas{"resolved": resolved, "written": written} {
		t.Run(name, func(t *testing.T) {
			if out := run(t, known, "${schema.spec.replicas}"); out.Desired == nil || len(out.Desired.Resources) != 2 || out.Progress[0].Calls != 2 {
				t.Errorf("want what waits for nothing, got %+v, %v", out, out.Failure)
			}
		})
	}
	out := run(t, resolved, "${'three'}")
	if out.Failure == nil || !strings.Contains(out.Failure.Error(), "spec.resources[0].template.spec.replicas") {
		t.Errorf("want to be told, got %v", out.Failure)
	}
}
