package functions_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/program/functions"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
	"github.com/espalier-dev/espalier/internal/testkit/rpc"
	sdk "github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// served are the functions of this program as programs of their own would serve them.
type served map[string]string

func (s served) Endpoint(_ context.Context, name string) (pipeline.Endpoint, error) {
	return pipeline.Endpoint{Target: s[name], Insecure: true}, nil
}

// serve serves all functions over loopback until the test ends.
func serve(t *testing.T) pipeline.Runner {
	t.Helper()
	all := served{}
	for name, core := range functions.PureFunctions() {
		all[name] = rpc.Serve(t, sdk.Func(functions.Adapt(core)), sdk.Insecure())
	}
	remote := pipeline.NewRemote(pipeline.RemoteOptions{Endpoints: all})
	t.Cleanup(remote.Close)
	return pipeline.Guard(remote, pipeline.CallLimits{})
}

// library is what functions can require.
type library struct {
	schemas map[string]any
	objects []any
}

func (l library) Resources(_ context.Context, s *fnv1.ResourceSelector) ([]map[string]any, bool, error) {
	var out []map[string]any
	for _, item := range l.objects {
		o := &unstructured.Unstructured{Object: item.(map[string]any)}
		if o.GetAPIVersion() == s.GetApiVersion() && o.GetKind() == s.GetKind() && o.GetNamespace() == s.GetNamespace() && o.GetName() == s.GetMatchName() {
			out = append(out, o.Object)
		}
	}
	return out, true, nil
}

func (l library) Schema(_ context.Context, s *fnv1.SchemaSelector) (map[string]any, bool, error) {
	schema, _ := l.schemas[s.GetApiVersion()+"/"+s.GetKind()].(map[string]any)
	return schema, true, nil
}

// TestItIsTheSameThroughGRPC runs the functions' goldens in pipelines, inside this process
// and served: auto-ready has the last word of each.
func TestItIsTheSameThroughGRPC(t *testing.T) {
	var inside pipeline.Functions
	functions.Register(&inside)
	outside := serve(t)
	for folder, name := range map[string]string{"graph": "function-graph", "../../composition/functions/patchandtransform": "function-patch-and-transform"} {
		for _, a := range golden.Read(t, folder+"/testdata/*.txtar") {
			t.Run(a.Name, func(t *testing.T) {
				steps, request, known := story(t, a.Input, name)
				run := func(r pipeline.Runner) pipeline.Result {
					return (&pipeline.Pipeline{Runner: pipeline.Guard(r, pipeline.CallLimits{}), Fetcher: known}).Run(t.Context(), steps, request)
				}
				want, got := run(&inside), run(outside)
				if want.Failure == nil && want.Desired == nil {
					t.Fatalf("it waits: %v", want.Pending)
				}
				if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
					t.Errorf("(-inside +served):\n%s", diff)
				}
			})
		}
	}
}

// story reads a golden as a pipeline that begins with the function of that name.
func story(t *testing.T, in map[string]string, name string) ([]pipeline.Step, pipeline.Request, library) {
	t.Helper()
	read := map[string]any{}
	for file, text := range in {
		var v any
		if err := yaml.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		read[file] = v
	}
	object := func(v any) map[string]any { o, _ := v.(map[string]any); return o }
	known := library{schemas: object(read["schemas.yaml"])}
	known.objects, _ = read["cluster.yaml"].([]any)
	resources := map[string]pipeline.Observation{}
	for name, o := range object(read["observed.yaml"]) {
		resources[name] = pipeline.Observation{Object: object(o)}
	}
	observed, err := pipeline.NewObservedState(pipeline.Observation{Object: object(read["xr.yaml"])}, resources)
	if err != nil {
		t.Fatal(err)
	}
	input, err := structs.ToStruct(object(read["input.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	steps := []pipeline.Step{{Name: "first", Function: name, Input: input}, {Name: "last", Function: "function-auto-ready"}}
	return steps, pipeline.Request{Observed: observed}, known
}
