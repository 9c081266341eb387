package tracing

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"
	"go.opentelemetry.io/otel/trace/noop"
)

// recorder is a provider that keeps all spans, numbered in the order in which they began. Where it samples nothing, spans
// have identifiers and record nothing, like those of an implementation.
type recorder struct {
	embedded.TracerProvider
	unsampled bool

	mu    sync.Mutex
	spans []*recorded
}

func (r *recorder) Tracer(string, ...trace.TracerOption) trace.Tracer {
	return recordingTracer{recorder: r}
}

type recordingTracer struct {
	embedded.Tracer
	*recorder
}

func (t recordingTracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	config := trace.NewSpanStartConfig(options...)
	t.mu.Lock()
	defer t.mu.Unlock()
	number := uint64(len(t.spans) + 1)
	s := &recorded{recorder: t.recorder, name: name, attributes: map[string]any{}, links: config.Links()}
	if !config.NewRoot() {
		s.parent = trace.SpanContextFromContext(ctx)
	}
	id := trace.SpanContextConfig{TraceID: s.parent.TraceID()}
	if !s.parent.IsValid() {
		binary.BigEndian.PutUint64(id.TraceID[8:], number)
	}
	binary.BigEndian.PutUint64(id.SpanID[:], number)
	if !t.unsampled {
		id.TraceFlags = trace.FlagsSampled
	}
	s.context = trace.NewSpanContext(id)
	t.spans = append(t.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

type recorded struct {
	noop.Span
	recorder   *recorder
	name       string
	context    trace.SpanContext
	parent     trace.SpanContext
	links      []trace.Link
	attributes map[string]any
	failed     bool
	ended      bool
}

func (s *recorded) SpanContext() trace.SpanContext { return s.context }
func (s *recorded) IsRecording() bool              { return !s.recorder.unsampled }
func (s *recorded) End(...trace.SpanEndOption)     { s.ended = true }

func (s *recorded) SetStatus(code codes.Code, description string) {
	s.failed = code == codes.Error
	if description != "" {
		s.attributes["description"] = description
	}
}

func (s *recorded) SetAttributes(all ...attribute.KeyValue) {
	for _, kv := range all {
		s.attributes[string(kv.Key)] = kv.Value.AsInterface()
	}
}

// text shows the spans as trees, with links and the attributes that are named.
func (r *recorder) text(attributes ...string) string {
	var b strings.Builder
	r.write(&b, trace.SpanID{}, "", attributes)
	return b.String()
}

func (r *recorder) write(b *strings.Builder, parent trace.SpanID, indent string, attributes []string) {
	for _, s := range r.spans {
		if s.parent.SpanID() != parent {
			continue
		}
		b.WriteString(indent + s.name)
		for _, name := range attributes {
			if value, ok := s.attributes[name]; ok {
				fmt.Fprintf(b, " %s=%v", name, value)
			}
		}
		for _, l := range s.links {
			fmt.Fprintf(b, " linked to %s", r.named(l.SpanContext.SpanID()))
		}
		if s.failed {
			b.WriteString(" failed")
		}
		if !s.ended {
			b.WriteString(" running")
		}
		b.WriteByte('\n')
		r.write(b, s.context.SpanID(), indent+"  ", attributes)
	}
}

func (r *recorder) named(id trace.SpanID) string {
	for _, s := range r.spans {
		if s.context.SpanID() == id {
			return s.name
		}
	}
	return "nothing"
}
