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
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/telemetry/reconcile"
)

// configuredTraces are traces in an environment without OTEL_* except for what is given.
func configuredTraces(t *testing.T, environment map[string]string, c server.TracingConfiguration) traces {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range environment {
		t.Setenv(name, value)
	}
	return traces{c}
}

func TestTracesAreExportedOnlyWhenConfigured(t *testing.T) {
	type variables map[string]string
	for name, c := range map[string]struct {
		environment variables
		endpoint    string
		want        bool
	}{
		"by default":                       {nil, "", false},
		"with an endpoint":                 {nil, "c:4317", true},
		"with the variable for all":        {variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c"}, "", true},
		"with the variable for traces":     {variables{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c"}, "", true},
		"not if the SDK is disabled":       {variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c", "OTEL_SDK_DISABLED": "true"}, "", false},
		"not if there is no exporter":      {variables{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c", "OTEL_TRACES_EXPORTER": "none"}, "", false},
		"with a flag despite the variable": {variables{"OTEL_SDK_DISABLED": "true"}, "c:4317", true},
	} {
		t.Run(name, func(t *testing.T) {
			f := configuredTraces(t, c.environment, server.TracingConfiguration{Endpoint: c.endpoint})
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
	for _, tc := range []struct{ endpoint, protocol, want string }{
		{"c:4317", "", "https://c:4317"},
		{"http://c:4317", "", "http://c:4317"},
		{"https://c:4318", server.TracingHTTP, "https://c:4318/v1/traces"},
		{"https://c/otlp/t", server.TracingHTTP, "https://c/otlp/t"},
		{"https://c/", "", "https://c/"},
	} {
		f := configuredTraces(t, nil, server.TracingConfiguration{Endpoint: tc.endpoint, Protocol: tc.protocol})
		if got, err := f.endpointURL(); got != tc.want || err != nil {
			t.Errorf("%s: %q, %v, want %q", tc.endpoint, got, err, tc.want)
		}
	}
	unknown := configuredTraces(t, map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, server.TracingConfiguration{Endpoint: "https://c"})
	if _, _, err := unknown.start(t.Context(), logr.Discard()); err == nil || codeOf(err) != exitUsage {
		t.Errorf("an unknown protocol: %v", err)
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
func exportOne(t *testing.T, f traces) {
	t.Helper()
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
	r, listening := received{exports: make(chan *collector.ExportTraceServiceRequest, 10)}, grpc.NewServer()
	collector.RegisterTraceServiceServer(listening, r)
	go func() { _ = listening.Serve(listener) }()
	defer listening.Stop()
	exportOne(t, configuredTraces(t, nil, server.TracingConfiguration{Endpoint: "http://" + listener.Addr().String()}))
	r.want(t, `"espalier"`)
}

func TestTracesAreExportedByHTTPWithTLSAndVariables(t *testing.T) {
	r := received{exports: make(chan *collector.ExportTraceServiceRequest, 10)}
	listening := httptest.NewTLSServer(r)
	defer listening.Close()
	authority := filepath.Join(t.TempDir(), "ca.crt")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listening.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	exportOne(t, configuredTraces(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": listening.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_EXPORTER_OTLP_CERTIFICATE": authority,
		"OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20t", "OTEL_SERVICE_NAME": "mine",
	}, server.TracingConfiguration{}))
	r.want(t, `"mine"`)
	exportOne(t, configuredTraces(t, map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": authority, "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20t"},
		server.TracingConfiguration{Protocol: server.TracingHTTP, Endpoint: strings.TrimPrefix(listening.URL, "https://")}))
	r.want(t, `"espalier"`)
	never := 0.0
	at := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": listening.URL}
	for _, off := range []traces{
		configuredTraces(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": listening.URL, "OTEL_TRACES_SAMPLER": "always_off"},
			server.TracingConfiguration{Protocol: server.TracingHTTP}),
		configuredTraces(t, at, server.TracingConfiguration{Protocol: server.TracingHTTP, SamplingRatio: &never}),
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
