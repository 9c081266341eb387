package tracing

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
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
	what := parse(r)
	ctx, span := p.tracer.tracer.Start(r.Context(), what.title(), trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	if span.IsRecording() {
		span.SetAttributes(what.attributes(hasSecretName(ctx))...)
	}
	var w *write
	if what.writes() {
		w = p.tracer.begin(running, what.target, what.resource, span.SpanContext())
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

// request is what a request's URL tells.
type request struct {
	target
	verb, resource, subresource string
	dryRun                      bool
}

// parse reads the URL of a request: /api/VERSION/… or /apis/GROUP/VERSION/…, then namespaces/NAMESPACE/ if the resource
// is namespaced, RESOURCE, NAME and SUBRESOURCE.
func parse(r *http.Request) request {
	out := request{verb: strings.ToLower(r.Method), dryRun: r.URL.Query().Has("dryRun")}
	parts := resourcePath(r.URL.Path, &out.group)
	if len(parts) == 0 {
		return out
	}
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		out.namespace, parts = parts[1], parts[2:]
	}
	at := func(i int) string {
		if i < len(parts) {
			return parts[i]
		}
		return ""
	}
	out.resource, out.name, out.subresource = at(0), at(1), at(2)
	out.verb = verbOf(r, out.name != "")
	return out
}

// resourcePath returns the path without the group and version; nil if it is not that of a resource. A server may serve
// the API below a path of its own.
func resourcePath(path string, group *string) []string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, part := range parts {
		switch {
		case part == "api" && len(parts) > i+2:
			return parts[i+2:]
		case part == "apis" && len(parts) > i+3:
			*group = parts[i+1]
			return parts[i+3:]
		}
	}
	return nil
}

func verbOf(r *http.Request, named bool) string {
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") == "true":
		return "watch"
	case r.Method == http.MethodGet && !named:
		return "list"
	case r.Method == http.MethodDelete && !named:
		return "deletecollection"
	case r.Method == http.MethodPost:
		return "create"
	case r.Method == http.MethodPut:
		return "update"
	}
	return strings.ToLower(r.Method)
}

// writes says whether the request may change one object whose name it has.
func (r request) writes() bool {
	return r.name != "" && !r.dryRun && (r.verb == "update" || r.verb == "patch" || r.verb == "delete")
}

// title is the name of the span: it has no names of objects, so that there are few.
func (r request) title() string {
	if r.resource == "" {
		return r.verb
	}
	if r.subresource != "" {
		return r.verb + " " + r.resource + "/" + r.subresource
	}
	return r.verb + " " + r.resource
}

func (r request) attributes(nameIsSecret bool) []attribute.KeyValue {
	name := r.name
	if nameIsSecret {
		name = ""
	}
	out := present(KeyVerb, r.verb, KeyGroup, r.group, KeyResource, r.resource, KeySubresource, r.subresource, KeyNamespace, r.namespace, KeyName, name)
	if r.dryRun {
		out = append(out, attribute.Bool(KeyDryRun, true))
	}
	return out
}
