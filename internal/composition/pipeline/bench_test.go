package pipeline_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// BenchmarkPipeline is a step that wants what was observed: fifty resources of some
// 500 bytes.
func BenchmarkPipeline(b *testing.B) {
	resources := map[string]pipeline.Observation{}
	for i := range 50 {
		data := map[string]any{}
		for j := range 20 {
			data[fmt.Sprintf("key-%d", j)] = "some value of it"
		}
		resources[fmt.Sprint(i)] = pipeline.Observation{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprintf("r-%d", i), "generation": int64(3)}, "data": data,
		}}
	}
	composite := pipeline.Observation{Object: map[string]any{"apiVersion": "example.org/v1", "kind": "App", "metadata": map[string]any{"name": "shop"}}}
	mirror := func(_ context.Context, r *request) (*response, error) {
		return &response{
			Meta:    &fnv1.ResponseMeta{Ttl: durationpb.New(time.Hour)},
			Desired: &fnv1.State{Resources: r.GetObserved().GetResources()},
		}, nil
	}
	known := &pipeline.Functions{}
	known.Register("f", mirror)

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { _ = function.Serve(ctx, listener, mirror, function.Insecure()) }()
	far := pipeline.NewRemote(pipeline.RemoteOptions{Endpoints: &atlas{at: map[string]pipeline.Endpoint{"f": {Target: listener.Addr().String(), Insecure: true}}}})
	defer far.Close()

	for name, runner := range map[string]pipeline.Runner{
		"in process": known,
		"over gRPC":  far,
		"remembered": pipeline.NewCache(known, func(string) string { return "" }, 1<<20, time.Now),
	} {
		b.Run(name, func(b *testing.B) {
			p := &pipeline.Pipeline{Runner: pipeline.Guard(runner, pipeline.CallLimits{})}
			b.ReportAllocs()
			for b.Loop() {
				observed, err := pipeline.NewObservedState(composite, resources)
				if err != nil {
					b.Fatal(err)
				}
				out := p.Run(b.Context(), []pipeline.Step{{Name: "a", Function: "f"}}, pipeline.Request{Observed: observed})
				if out.Desired == nil || len(out.Desired.Resources) != 50 {
					b.Fatal(out.Failure)
				}
			}
		})
	}
}
