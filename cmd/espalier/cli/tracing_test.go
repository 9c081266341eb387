package cli

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/spf13/cobra"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// parsedTracing are the flags of a command line, in an environment without OTEL_* except for what is given.
func parsedTracing(t *testing.T, environment map[string]string, args ...string) *tracingFlags {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range environment {
		t.Setenv(name, value)
	}
	f, cmd := &tracingFlags{}, &cobra.Command{}
	f.add(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTracesAreExportedOnlyWhenConfigured(t *testing.T) {
	type variables map[string]string
	for name, c := range map[string]struct {
		environment variables
		args        []string
		want        bool
	}{
		"by default":                       {nil, nil, false},
		"with an endpoint":                 {nil, []string{"--tracing-endpoint=c:4317"}, true},
		"with the variable for all":        {variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c"}, nil, true},
		"with the variable for traces":     {variables{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c"}, nil, true},
		"not if the SDK is disabled":       {variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c", "OTEL_SDK_DISABLED": "true"}, nil, false},
		"not if there is no exporter":      {variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c", "OTEL_TRACES_EXPORTER": "none"}, nil, false},
		"with a flag despite the variable": {variables{"OTEL_SDK_DISABLED": "true"}, []string{"--tracing-endpoint=c:4317"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := parsedTracing(t, c.environment, c.args...)
			if got := f.enabled(); got != c.want {
				t.Errorf("enabled: %t", got)
			}
			if c.want {
				return
			}
			tracer, flush, err := f.start(t.Context(), logr.Discard())
			if tracer != nil || err != nil {
				t.Errorf("a tracer: %v, %v", tracer, err)
			}
			flush()
		})
	}
}

func TestTracingEndpoints(t *testing.T) {
	for args, want := range map[string]string{
		"--tracing-endpoint=c:4317":                                            "https://c:4317",
		"--tracing-endpoint=http://c:4317":                                     "http://c:4317",
		"--tracing-endpoint=https://c:4318 --tracing-protocol=http/protobuf":   "https://c:4318/v1/traces",
		"--tracing-endpoint=https://c/otlp/t --tracing-protocol=http/protobuf": "https://c/otlp/t",
		"--tracing-endpoint=ftp://c":                                           "must be a URL",
		"--tracing-endpoint=https://":                                          "must be a URL",
		"--tracing-endpoint=https://c?x=y":                                     "must be a URL",
		"--tracing-endpoint=https://me:hunter2@c":                              "must have no user or password",
		"--tracing-endpoint=https://me:hunter2@c%":                             "must be a URL",
		"--tracing-protocol=http/json":                                         "must be grpc or http/protobuf",
		"--tracing-sampling-ratio=1.5":                                         "must be from 0 to 1",
		"--tracing-sampling-ratio=-1":                                          "must be from 0 to 1",
		"--tracing-sampling-ratio=NaN":                                         "must be from 0 to 1",
		"--tracing-sampling-ratio=0.25 --tracing-endpoint=https://c/":          "https://c/",
	} {
		f := parsedTracing(t, nil, strings.Fields(args)...)
		if err := f.check(); err != nil {
			if usage := new(usageError); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %v, want %s", args, err, want)
			}
			continue
		}
		if got, err := f.endpointURL(); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", args, got, err, want)
		}
	}
}

// received are the exports that a collector has received.
type received struct {
	collector.UnimplementedTraceServiceServer
	exports chan *collector.ExportTraceServiceRequest
}

func (r received) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.exports <- request
	return &collector.ExportTraceServiceResponse{}, nil
}

func (r received) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	export := &collector.ExportTraceServiceRequest{}
	if err != nil || request.URL.Path != "/v1/traces" || request.Header.Get("Authorization") != "Bearer t" || proto.Unmarshal(body, export) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.exports <- export
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// exportOne exports the trace of one reconcile.
func exportOne(t *testing.T, f *tracingFlags) {
	t.Helper()
	if err := f.check(); err != nil {
		t.Fatal(err)
	}
	tracer, flush, err := f.start(t.Context(), logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracer.StartReconcile(t.Context(), schema.GroupVersionKind{Kind: "Vpc"}, object.Key{Kind: "Vpc", Name: "x"}, nil, 0)
	span.End(reconcile.Done())
	flush()
}

func (r received) want(t *testing.T, service string) {
	t.Helper()
	select {
	case export := <-r.exports:
		all := export.GetResourceSpans()
		if name := all[0].GetScopeSpans()[0].GetSpans()[0].GetName(); name != "reconcile Vpc" {
			t.Errorf("the span is %q", name)
		}
		if got := all[0].GetResource().String(); !strings.Contains(got, service) || !strings.Contains(got, "service.version") {
			t.Errorf("the resource is %s", got)
		}
	default:
		t.Error("nothing was exported")
	}
}

func TestTracesAreExportedByGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, server := received{exports: make(chan *collector.ExportTraceServiceRequest, 10)}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	exportOne(t, parsedTracing(t, nil, "--tracing-endpoint=http://"+listener.Addr().String()))
	r.want(t, `"espalier"`)
}

func TestTracesAreExportedByHTTPWithTLSAndVariables(t *testing.T) {
	r := received{exports: make(chan *collector.ExportTraceServiceRequest, 10)}
	server := httptest.NewTLSServer(r)
	defer server.Close()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	exportOne(t, parsedTracing(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_CERTIFICATE": authority,
		"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20t", "OTEL_SERVICE_NAME": "mine",
	}))
	r.want(t, `"mine"`)
	exportOne(t, parsedTracing(t, map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": authority, "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20t"},
		"--tracing-protocol=http/protobuf", "--tracing-endpoint="+strings.TrimPrefix(server.URL, "https://")))
	r.want(t, `"espalier"`)
	for _, off := range []*tracingFlags{
		parsedTracing(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_TRACES_SAMPLER": "always_off"}, "--tracing-protocol=http/protobuf"),
		parsedTracing(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL}, "--tracing-protocol=http/protobuf", "--tracing-sampling-ratio=0"),
	} {
		exportOne(t, off)
		if len(r.exports) > 0 {
			t.Error("what is not sampled is exported")
		}
	}
}

func TestFailedExportsAreLoggedOnceAMinute(t *testing.T) {
	var lines bytes.Buffer
	now := time.Now()
	e := &exportErrors{log: funcr.New(func(_, args string) { lines.WriteString(args + "\n") }, funcr.Options{}), now: func() time.Time { return now }}
	for range 3 {
		e.Handle(errors.New("refused"))
		now = now.Add(40 * time.Second)
	}
	if got := strings.Count(lines.String(), "refused"); got != 2 {
		t.Errorf("%d lines:\n%s", got, lines.String())
	}
}
