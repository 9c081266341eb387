package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
)

// tracingFlags say where traces are exported to. The variables OTEL_* of OpenTelemetry apply where a flag is not given.
type tracingFlags struct {
	endpoint, protocol string
	ratio              float64
	ratioGiven         func() bool
}

// The protocols of --tracing-protocol, as OTEL_EXPORTER_OTLP_PROTOCOL names them.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

func (f *tracingFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.endpoint, "tracing-endpoint", "",
		"export traces by OTLP to this URL, with TLS unless it begins with http://; by default $OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or $OTEL_EXPORTER_OTLP_ENDPOINT, and without these there are no traces")
	flags.StringVar(&f.protocol, "tracing-protocol", "",
		"grpc or http/protobuf; by default $OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, $OTEL_EXPORTER_OTLP_PROTOCOL or grpc")
	flags.Float64Var(&f.ratio, "tracing-sampling-ratio", 1,
		"the part of the traces that is recorded, from 0 to 1; the variable OTEL_TRACES_SAMPLER applies if this is not given")
	f.ratioGiven = func() bool { return flags.Changed("tracing-sampling-ratio") }
}

// enabled says whether traces are exported.
func (f *tracingFlags) enabled() bool {
	if f.endpoint != "" {
		return true
	}
	switch {
	case strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"), os.Getenv("OTEL_TRACES_EXPORTER") == "none":
		return false
	}
	return firstVariable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT") != ""
}

func (f *tracingFlags) check() error {
	if !(f.ratio >= 0 && f.ratio <= 1) {
		return &usageError{fmt.Errorf("--tracing-sampling-ratio must be from 0 to 1, not %v", f.ratio)}
	}
	if p := f.protocolOrDefault(); p != protocolGRPC && p != protocolHTTP {
		return &usageError{fmt.Errorf("--tracing-protocol must be %s or %s, not %q", protocolGRPC, protocolHTTP, p)}
	}
	_, err := f.endpointURL()
	return err
}

func (f *tracingFlags) protocolOrDefault() string {
	if f.protocol != "" {
		return f.protocol
	}
	if p := firstVariable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p != "" {
		return p
	}
	return protocolGRPC
}

// endpointURL is the URL of --tracing-endpoint; empty if it is not given. One without a scheme has TLS, and one without a path has
// that of OTLP.
func (f *tracingFlags) endpointURL() (string, error) {
	if f.endpoint == "" {
		return "", nil
	}
	text := f.endpoint
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "", &usageError{errors.New("--tracing-endpoint must be a URL like https://collector.example.com:4317")}
	case u.User != nil:
		return "", &usageError{errors.New("--tracing-endpoint must have no user or password: others can read the flags of a process; put credentials into the variable OTEL_EXPORTER_OTLP_HEADERS")}
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.RawQuery != "", u.Fragment != "":
		return "", &usageError{fmt.Errorf("--tracing-endpoint must be a URL like https://collector.example.com:4317, not %q", f.endpoint)}
	}
	if f.protocolOrDefault() == protocolHTTP && strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	return u.String(), nil
}

// start returns a tracer that exports, and a function that exports what is left; a nil tracer if traces are not exported.
func (f *tracingFlags) start(ctx context.Context, log logr.Logger) (*tracing.Tracer, func(), error) {
	if !f.enabled() {
		return nil, func() {}, nil
	}
	log = log.WithName("tracing")
	otel.SetLogger(log)
	otel.SetErrorHandler(&exportErrors{log: log, now: time.Now})
	exporter, err := f.exporter(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("export traces: %w", err)
	}
	options := []sdktrace.TracerProviderOption{sdktrace.WithBatcher(exporter), sdktrace.WithResource(tracedResource(ctx))}
	if f.ratioGiven() || os.Getenv("OTEL_TRACES_SAMPLER") == "" {
		options = append(options, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(f.ratio))))
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

func (f *tracingFlags) exporter(ctx context.Context) (*otlptrace.Exporter, error) {
	endpoint, err := f.endpointURL()
	if err != nil {
		return nil, err
	}
	if f.protocolOrDefault() == protocolHTTP {
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
