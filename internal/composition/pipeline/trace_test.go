package pipeline_test

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/testkit/rpc"
	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

func TestAFunctionGetsTheTraceOfItsCall(t *testing.T) {
	traceparents := func(ctx context.Context, _ *request) (*response, error) {
		values, _ := metadata.FromIncomingContext(ctx)
		tag := "none"
		if all := values.Get("traceparent"); len(all) > 0 {
			tag = all[0]
		}
		return &response{Meta: &fnv1.ResponseMeta{Tag: tag}}, nil
	}
	places := &atlas{at: map[string]pipeline.Endpoint{"f": {Target: rpc.Serve(t, traceparents, function.Insecure()), Insecure: true}}}
	runner, _ := remote(t, pipeline.RemoteOptions{Endpoints: places})
	want(t, runner, "none")
	traced := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{15: 1}, SpanID: trace.SpanID{7: 2}, TraceFlags: trace.FlagsSampled,
	}))
	got, err := runner.Run(traced, "f", &request{})
	if tag := got.GetMeta().GetTag(); err != nil || tag != "00-00000000000000000000000000000001-0000000000000002-01" {
		t.Errorf("got %q, %v", tag, err)
	}
}
