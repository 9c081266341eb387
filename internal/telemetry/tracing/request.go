package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/espalier-dev/espalier/internal/object/apirequest"
)

// Transport returns a transport that makes a span of each request of a reconcile, and passes the trace on to the API
// server. Other requests, like watches, are sent as they are.
func (t *Tracer) Transport(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	return transport{t, next}
}

type transport struct {
	tracer *Tracer
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (p transport) RoundTrip(r *http.Request) (*http.Response, error) {
	running := reconcileOf(r.Context())
	if running == nil {
		return p.next.RoundTrip(r)
	}
	what := request{apirequest.Parse(r.Method, r.URL)}
	ctx, span := p.tracer.tracer.Start(r.Context(), what.title(), trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(what.attributes(hasSecretName(ctx))...)
	}
	var w *write
	if what.Writes() {
		w = p.tracer.begin(running, target{what.Group, what.Namespace, what.Name}, what.Resource, span.SpanContext())
	}
	r = r.Clone(ctx)
	w3c.Inject(ctx, propagation.HeaderCarrier(r.Header))
	answer, err := p.next.RoundTrip(r)
	p.tracer.answer(w, err != nil || answer.StatusCode < http.StatusBadRequest) // without an answer it may have written
	if !span.IsRecording() {
		return answer, err
	}
	fail(span, err)
	if err == nil {
		span.SetAttributes(attribute.Int(KeyCode, answer.StatusCode))
		if answer.StatusCode == http.StatusConflict {
			span.SetAttributes(attribute.Bool(KeyConflict, true))
		}
		if answer.StatusCode >= http.StatusBadRequest {
			span.SetStatus(codes.Error, "")
		}
	}
	return answer, err
}

var (
	background = context.Background()
	w3c        = propagation.TraceContext{}
)

// Headers returns the W3C headers of the trace that a context belongs to, as names and values in turn; nil without a trace.
func Headers(ctx context.Context) []string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return nil
	}
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	var out []string
	for _, name := range w3c.Fields() {
		if value := carrier.Get(name); value != "" {
			out = append(out, name, value)
		}
	}
	return out
}

type request struct{ apirequest.Request }

// It contains no names of objects, so there are few.
func (r request) title() string {
	if r.Resource == "" {
		return r.Verb
	}
	if r.Subresource != "" {
		return r.Verb + " " + r.Resource + "/" + r.Subresource
	}
	return r.Verb + " " + r.Resource
}

func (r request) attributes(nameIsSecret bool) []attribute.KeyValue {
	name := r.Name
	if nameIsSecret {
		name = ""
	}
	out := present(KeyVerb, r.Verb, KeyGroup, r.Group, KeyResource, r.Resource, KeySubresource, r.Subresource, KeyNamespace, r.Namespace, KeyName, name)
	if r.DryRun {
		out = append(out, attribute.Bool(KeyDryRun, true))
	}
	return out
}
