// Package tracing proves that traces are whole: one change below, and everything up to the status of the top instance.
package tracing

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// exported has the spans that have ended; sent has the requests of the controllers that write.
var (
	exported = tracetest.NewInMemoryExporter()
	sent     requests
)

// logged has the lines of the log.
var logged lines

type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

// with returns the lines that contain all parts.
func (l *lines) with(parts ...string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			out = append(out, line)
		}
	}
	return out
}

// requests are the paths of requests that are not reads.
type requests struct {
	mu    sync.Mutex
	paths []string
}

// in counts the requests in a namespace.
func (r *requests) in(namespace string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, path := range r.paths {
		if strings.Contains(path, "/namespaces/"+namespace+"/") {
			n++
		}
	}
	return n
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if request.Method != http.MethodGet {
			r.mu.Lock()
			r.paths = append(r.paths, request.URL.Path)
			r.mu.Unlock()
		}
		return next.RoundTrip(request)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestMain(m *testing.M) {
	tracer := tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSyncer(exported)))
	os.Exit(suite.Main(m, server.Options{Tracer: tracer, Log: funcr.NewJSON(logged.add, funcr.Options{}), Config: &rest.Config{WrapTransport: sent.wrap}}, nil))
}
