package cli

import (
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit/proxy"
)

// TestTracesAreExportedThroughTheProxy checks which host is requested: the collector behind the proxy has a certificate that the exporter
// does not trust. With gRPC, the exporter connects as to functions.
func TestTracesAreExportedThroughTheProxy(t *testing.T) {
	proxy.Behind(t, func(p *proxy.Proxy) {
		collector := httptest.NewTLSServer(nil)
		t.Cleanup(collector.Close)
		p.ConnectTo(collector.Listener.Addr().String())
		configured := configuredTraces(t, nil, server.TracingConfiguration{Endpoint: "https://collector.example:4318", Protocol: server.TracingHTTP})
		exporter, err := configured.exporter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := exporter.ExportSpans(t.Context(), tracetest.SpanStubs{{Name: "reconcile"}}.Snapshots()); err == nil {
			t.Error("the exporter trusts the certificate")
		}
		p.CheckHosts(t, "collector.example:4318")
	})
}
