package instance

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// Revisioned is a Composer that names the revision which composes an instance, for traces.
type Revisioned interface {
	RevisionOf(instance *unstructured.Unstructured) string
}

func traceRevision(ctx context.Context, c Composer, instance *unstructured.Unstructured) {
	if by, ok := c.(Revisioned); ok && tracing.IsRecording(ctx) {
		tracing.SetRevision(ctx, by.RevisionOf(instance))
	}
}

func startNode(ctx context.Context, step plan.Step) (context.Context, tracing.Span) {
	return tracing.StartNode(ctx, tracing.Node{
		ID: step.Node, Decision: string(step.Action), Reason: string(step.Problem.Reason), Sensitive: step.Sensitive,
	})
}

// Steps that keep their object have no span.
func traceUnapplied(ctx context.Context, p plan.Plan) {
	if !tracing.IsRecording(ctx) {
		return
	}
	for _, step := range p.Steps {
		if step.Action == plan.Defer || step.Action == plan.Skip {
			_, span := startNode(ctx, step)
			span.End(nil)
		}
	}
}
