package tracing

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

const scope = "github.com/espalier-dev/espalier"

// maxNodeSpans bounds the spans of nodes of one reconcile; further nodes are counted.
const maxNodeSpans = 256

// Tracer makes spans of events, reconciles and requests. It is safe for concurrent use. Nil makes none.
type Tracer struct {
	tracer trace.Tracer

	// mu is held for map operations and while the span of an event starts, so an object's state has one event however
	// many watches deliver it.
	mu       sync.Mutex
	running  map[object.Key]*Reconcile
	requests map[target][]*write
	states   recent[state]
	managers recent[string]
}

// New returns a tracer that gives its spans to a provider.
func New(provider trace.TracerProvider) *Tracer {
	return &Tracer{
		tracer:   provider.Tracer(scope),
		running:  map[object.Key]*Reconcile{},
		requests: map[target][]*write{},
		states:   newRecent[state](maxStates),
		managers: newRecent[string](maxManagers),
	}
}

// Reconcile is the span of one reconcile. Nil is none.
type Reconcile struct {
	tracer *Tracer
	key    object.Key
	span   trace.Span
	origin origin
	// writes are its requests that write objects, guarded by the tracer's lock.
	writes []*write

	mu              sync.Mutex
	nodes, untraced int
}

type contextKey struct{}

// It is nil if the context belongs to none or to one that is not traced.
func reconcileOf(ctx context.Context) *Reconcile {
	r, _ := ctx.Value(contextKey{}).(*Reconcile)
	return r
}

// StartReconcile starts the span of a reconcile with its causes: the first is its parent, the rest are links. The
// caller must call End. At most one reconcile of an object may be running.
func (t *Tracer) StartReconcile(ctx context.Context, kind schema.GroupVersionKind, key object.Key, causes *Causes,
	waited time.Duration) (context.Context, *Reconcile) {
	if t == nil {
		return ctx, nil
	}
	r := &Reconcile{tracer: t, key: key}
	options := []trace.SpanStartOption{trace.WithLinks(causes.links()...)}
	if first := causes.first(); first != nil {
		r.origin.depth = first.depth
		ctx = trace.ContextWithSpanContext(ctx, first.span)
	} else {
		options = append(options, trace.WithNewRoot())
	}
	ctx, r.span = t.tracer.Start(ctx, "reconcile "+key.Kind, options...)
	r.origin.span = r.span.SpanContext()
	if r.span.IsRecording() {
		r.span.SetAttributes(objectAttributes(key)...)
		r.span.SetAttributes(attribute.String(KeyVersion, kind.Version), attribute.Int64(KeyWaited, waited.Milliseconds()), attribute.Int(KeyCauses, causes.count()))
	}
	t.mu.Lock()
	t.running[key] = r
	t.mu.Unlock()
	return context.WithValue(ctx, contextKey{}, r), r
}

// End ends the span with the result of the reconcile.
func (r *Reconcile) End(out reconcile.Result) {
	if r == nil {
		return
	}
	r.tracer.endReconcile(r)
	if r.span.IsRecording() {
		r.span.SetAttributes(attribute.String(KeyResult, out.Outcome()))
		if out.RequeueAfter > 0 {
			r.span.SetAttributes(attribute.Int64(KeyRequeue, out.RequeueAfter.Milliseconds()))
		}
		r.mu.Lock()
		if r.untraced > 0 {
			r.span.SetAttributes(attribute.Int(KeyUntraced, r.untraced))
		}
		r.mu.Unlock()
		fail(r.span, out.Err)
	}
	r.span.End()
}

// Logger adds the identifiers of the trace to a log, if the reconcile is sampled.
func (r *Reconcile) Logger(log logr.Logger) logr.Logger {
	if r == nil || !r.origin.span.IsSampled() {
		return log
	}
	return log.WithValues(KeyTraceID, r.origin.span.TraceID().String(), KeySpanID, r.origin.span.SpanID().String())
}

// fail marks a span as failed. The message of the error is left out: it may contain values of objects.
func fail(span trace.Span, err error) {
	if err == nil {
		return
	}
	reason := string(apierrors.ReasonForError(err))
	var reasoned interface{ TraceReason() string }
	switch {
	case reason != "":
	case errors.As(err, &reasoned):
		reason = reasoned.TraceReason()
	case errors.Is(err, context.DeadlineExceeded):
		reason = "DeadlineExceeded"
	case errors.Is(err, context.Canceled):
		reason = "Canceled"
	default:
		reason = "Error"
	}
	span.SetAttributes(attribute.String(KeyReason, reason))
	span.SetStatus(codes.Error, "")
}

func objectAttributes(key object.Key) []attribute.KeyValue {
	return present(KeyGroup, key.Group, KeyKind, key.Kind, KeyNamespace, key.Namespace, KeyName, key.Name)
}

// Empty attributes are left out.
func present(pairs ...string) []attribute.KeyValue {
	var out []attribute.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, attribute.String(pairs[i], pairs[i+1]))
		}
	}
	return out
}
