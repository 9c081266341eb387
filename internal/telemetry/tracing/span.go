package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Span is the span of a part of a reconcile. The zero value is none.
type Span struct{ span trace.Span }

// IsRecording reports whether the spans of a context are recorded. If not, callers need not compute attributes.
func IsRecording(ctx context.Context) bool {
	return reconcileOf(ctx) != nil && trace.SpanFromContext(ctx).IsRecording()
}

// SetGeneration adds the generation of the object that a reconcile is of.
func SetGeneration(ctx context.Context, generation int64) {
	if r := reconcileOf(ctx); r != nil && r.span.IsRecording() {
		r.span.SetAttributes(attribute.Int64(KeyGeneration, generation))
	}
}

// SetRevision adds the revision of the definition that an instance is composed by.
func SetRevision(ctx context.Context, revision string) {
	if r := reconcileOf(ctx); r != nil && r.span.IsRecording() && revision != "" {
		r.span.SetAttributes(attribute.String(KeyRevision, revision))
	}
}

// Node is what is decided for one node of an instance.
type Node struct {
	ID, Decision, Reason string
	// Sensitive says that the name of the node's object is left out of requests.
	Sensitive bool
}

// StartNode starts the span of a node.
func StartNode(ctx context.Context, n Node) (context.Context, Span) {
	if !IsRecording(ctx) || !reconcileOf(ctx).takeNode() {
		return ctx, Span{}
	}
	if n.Sensitive {
		ctx = context.WithValue(ctx, secretNameKey{}, true)
	}
	ctx, span := start(ctx, "node "+n.ID)
	span.SetAttributes(present(KeyNode, n.ID, KeyDecision, n.Decision, KeyReason, n.Reason)...)
	return ctx, Span{span}
}

func (r *Reconcile) takeNode() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes >= maxNodeSpans {
		r.untraced++
		return false
	}
	r.nodes++
	return true
}

type secretNameKey struct{}

func hasSecretName(ctx context.Context) bool { return ctx.Value(secretNameKey{}) != nil }

// StartFunction starts the span of one call of a function.
func StartFunction(ctx context.Context, step, function string, call int) (context.Context, Span) {
	if !IsRecording(ctx) {
		return ctx, Span{}
	}
	ctx, span := start(ctx, "function "+function, trace.WithSpanKind(trace.SpanKindClient))
	span.SetAttributes(attribute.String(KeyStep, step), attribute.String(KeyFunction, function), attribute.Int(KeyCall, call))
	return ctx, Span{span}
}

// SetResults adds what a function returned.
func (s Span) SetResults(fatal bool, warnings int) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.Bool(KeyFatal, fatal), attribute.Int(KeyWarnings, warnings))
	if fatal {
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends the span. The error may be nil; only the reason of an error is recorded.
func (s Span) End(err error) {
	if s.span == nil {
		return
	}
	fail(s.span, err)
	s.span.End()
}

func start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return reconcileOf(ctx).tracer.tracer.Start(ctx, name, options...)
}
