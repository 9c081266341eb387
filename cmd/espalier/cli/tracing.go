package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// traces are where traces are exported to. The variables OTEL_* of OpenTelemetry apply where nothing is configured.
type traces struct{ server.TracingConfiguration }

// enabled says whether traces are exported.
func (t traces) enabled() bool {
	if t.Endpoint != "" {
		return true
	}
	switch {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), os.Getenv("OTEL_TRACES_EXPORTER") == "none":
		return false
	}
	return firstVariable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") != ""
}

func (t traces) protocolOrDefault() string {
	if t.Protocol != "" {
		return t.Protocol
	}
	if p := firstVariable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" {
		return p
	}
	return server.TracingGRPC
}

// endpointURL is the URL of the endpoint; empty if it is not given. One without a path has the path of OTLP.
func (t traces) endpointURL() (string, error) {
	u, err := t.URL()
	if u == nil || err != nil {
		return "", err
	}
	if t.protocolOrDefault() == server.TracingHTTP && strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// start returns a tracer that exports, and a function that exports what is left; a nil tracer if traces are not exported.
func (t traces) start(ctx context.Context, log logr.Logger) (*tracing.Tracer, func(), error) {
	if !t.enabled() {
		return nil, func() {}, nil
	}
	if p := t.protocolOrDefault(); p != server.TracingGRPC && p != server.TracingHTTP {
		return nil, nil, &usageError{fmt.Errorf("the protocol of traces must be %s or %s, not %q", server.TracingGRPC, server.TracingHTTP, p)}
	}
	log = log.WithName("tracing")
	otel.SetLogger(log)
	otel.SetErrorHandler(&exportErrors{log: log, now: time.Now})
	exporter, err := t.exporter(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("export traces: %w", err)
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter), sdktrace.WithResource(tracedResource(ctx))}
	if ratio := t.SamplingRatio; ratio != nil {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(*ratio))))
	}
	provider := sdktrace.NewTracerProvider(options...)
	return tracing.New(provider), func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastExportLimit)
		defer cancel()
		if err := provider.Shutdown(last); err != nil {
			otel.Handle(err)
		}
	}, nil
}

// lastExportLimit is how long the end of the program waits for the last traces to be exported.
const lastExportLimit = 5 * time.Second

func (t traces) exporter(ctx context.Context) (*otlptrace.Exporter, error) {
	endpoint, err := t.endpointURL()
	if err != nil {
		return nil, err
	}
	if t.protocolOrDefault() == server.TracingHTTP {
		var options []otlptracehttp.Option
		if endpoint != "" {
			options = append(options, otlptracehttp.WithEndpointURL(endpoint))
		}
		return otlptracehttp.New(ctx, options...)
	}
	var options []otlptracegrpc.Option
	if endpoint != "" {
		options = append(options, otlptracegrpc.WithEndpointURL(endpoint))
	}
	return otlptracegrpc.New(ctx, options...)
}

// tracedResource describes this process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES override it.
func tracedResource(ctx context.Context) *resource.Resource {
	own := resource.NewSchemaless(attribute.String("service.name", programName), attribute.String("service.version", Version()))
	more, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		otel.Handle(err)
	}
	merged, err := resource.Merge(own, more)
	if err != nil {
		otel.Handle(err)
		return own
	}
	return merged
}

// exportErrors logs that traces cannot be exported, once a minute.
type exportErrors struct {
	log logr.Logger
	now func() time.Time

	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (e *exportErrors) Handle(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	if err == nil || !e.last.IsZero() && now.Sub(e.last) < time.Minute {
		return
	}
	e.last = now
	e.log.Info("traces are not exported; the controllers go on without them", "error", err.Error())
}

// firstVariable is the first of several environment variables that is set.
func firstVariable(names ...string) string {
	for _, name := range names {
		if value := os.Getenv(name); value != "" {
			return value
		}
	}
	return ""
}
