package kube

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// connectionServer is an HTTPS server that records how it is called.
type connectionServer struct {
	*httptest.Server
	config *rest.Config
	closed chan string // addresses of clients

	mu       sync.Mutex
	requests []*http.Request
}

// newConnectionServer returns a server that answers requests by a function after it has recorded them.
func newConnectionServer(t *testing.T, answer http.HandlerFunc) *connectionServer {
	t.Helper()
	s := &connectionServer{closed: make(chan string, 100)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		s.mu.Unlock()
		if answer != nil {
			answer(w, r)
		}
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			s.closed <- c.RemoteAddr().String()
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	s.config = &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
	return s
}

// protocols counts the requests by their protocol.
func (s *connectionServer) protocols() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for _, r := range s.requests {
		out[r.Proto]++
	}
	return out
}

func (s *connectionServer) last() *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[len(s.requests)-1]
}

func clientWithConnections(t *testing.T, config *rest.Config) *http.Client {
	t.Helper()
	config, _, err := UseConnections(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func request(ctx context.Context, client *http.Client, method, url string) error {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestRequestsWithADeadlineUseConnectionsOfTheirOwn(t *testing.T) {
	server := newConnectionServer(t, nil)
	client := clientWithConnections(t, server.config)
	for _, c := range []struct {
		name, method, query string
		ctx                 context.Context
		proto               string
	}{
		{"read", http.MethodGet, "", bounded(t), "HTTP/1.1"},
		{"write", http.MethodPatch, "?fieldManager=a", bounded(t), "HTTP/1.1"},
		{"without a deadline", http.MethodPatch, "", t.Context(), "HTTP/2.0"},
		{"watch", http.MethodGet, "?watch=true", t.Context(), "HTTP/2.0"},
		{"watch with a deadline", http.MethodGet, "?watch=1", bounded(t), "HTTP/2.0"},
	} {
		if err := request(c.ctx, client, c.method, server.URL+"/api/v1/configmaps"+c.query); err != nil {
			t.Fatal(err)
		}
		if got := server.last(); got.Proto != c.proto || got.Method != c.method {
			t.Errorf("%s: %s by %s, not %s", c.name, got.Method, got.Proto, c.proto)
		}
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	const n = maxConnections + 10
	var arrived sync.WaitGroup
	arrived.Add(n)
	server := newConnectionServer(t, func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		arrived.Wait()
	})
	client := clientWithConnections(t, server.config)
	ctx := bounded(t)
	failures := make(chan error, n)
	for range n {
		go func() { failures <- request(ctx, client, http.MethodGet, server.URL) }()
	}
	for range n {
		if err := <-failures; err != nil {
			t.Fatal(err)
		}
	}
	if got := server.protocols(); got["HTTP/1.1"] != maxConnections || got["HTTP/2.0"] != n-maxConnections {
		t.Errorf("requests by protocol: %v", got)
	}
}

// A client sends credentials, and whom it impersonates, with both protocols; another client that was derived from the
// same configuration sends its own.
func TestConnectionsKeepCredentialsApart(t *testing.T) {
	server := newConnectionServer(t, nil)
	server.config.BearerToken = "ours"
	config, _, err := UseConnections(server.config)
	if err != nil {
		t.Fatal(err)
	}
	other := rest.CopyConfig(config)
	other.BearerToken, other.Impersonate.UserName = "theirs", "alice"
	for _, config := range []*rest.Config{config, other} {
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, ctx := range []context.Context{bounded(t), t.Context()} {
			if err := request(ctx, client, http.MethodGet, server.URL); err != nil {
				t.Fatal(err)
			}
			got := server.last()
			if token, user := got.Header.Get("Authorization"), got.Header.Get("Impersonate-User"); token != "Bearer "+config.BearerToken || user != config.Impersonate.UserName {
				t.Errorf("by %s: Authorization %q, Impersonate-User %q", got.Proto, token, user)
			}
		}
	}
	if got := server.protocols(); got["HTTP/1.1"] != 2 || got["HTTP/2.0"] != 2 {
		t.Errorf("requests by protocol: %v", got)
	}
}

// What the configuration wraps sees all requests, with both protocols.
func TestConnectionsAreInsideOfWrappers(t *testing.T) {
	server := newConnectionServer(t, nil)
	seen := 0
	client := clientWithConnections(t, CountRequests(server.config, func(context.Context) { seen++ }))
	for _, ctx := range []context.Context{bounded(t), t.Context()} {
		if err := request(ctx, client, http.MethodGet, server.URL); err != nil {
			t.Fatal(err)
		}
	}
	if seen != 2 {
		t.Errorf("the wrapper has seen %d of 2 requests", seen)
	}
	if server.config.NextProtos != nil {
		t.Error("the original configuration has changed")
	}
}

// After a request without an answer, no other is sent by an idle connection, which may be to the same dead server.
func TestConnectionsAreClosedAfterAFailure(t *testing.T) {
	server := newConnectionServer(t, nil)
	client := clientWithConnections(t, server.config)
	if err := request(bounded(t), client, http.MethodGet, server.URL); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer end()
	if err := request(ended, client, http.MethodGet, server.URL); err == nil {
		t.Fatal("a request was answered after its deadline")
	}
	if got := <-server.closed; got != server.last().RemoteAddr {
		t.Errorf("%s was closed, not %s", got, server.last().RemoteAddr)
	}
}

func TestUnusedConnectionsAreClosed(t *testing.T) {
	server := newConnectionServer(t, nil)
	now := time.Now()
	config, _, err := useConnections(server.config, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	from := func(later time.Duration) string {
		now = now.Add(later)
		if err := request(bounded(t), client, http.MethodGet, server.URL); err != nil {
			t.Fatal(err)
		}
		return server.last().RemoteAddr
	}
	first := from(0)
	if second := from(unusedLimit); second != first {
		t.Errorf("a connection is not used again: %s after %s", second, first)
	}
	if third := from(unusedLimit + time.Second); third == first {
		t.Error("a connection is used again after it was unused for too long")
	}
	if got := <-server.closed; got != first {
		t.Errorf("%s was closed, not %s", got, first)
	}
}

func TestConnectionsLeaveCustomTransportsAlone(t *testing.T) {
	custom := &rest.Config{Transport: http.DefaultTransport}
	if config, _, err := UseConnections(custom); err != nil || config != custom {
		t.Errorf("a configuration with a transport of its own is changed: %v", err)
	}
}

func TestServersWithoutHTTP1GetAllRequests(t *testing.T) {
	var bodies []string
	server := newConnectionServer(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies = append(bodies, string(body))
	})
	refusals := 0
	server.TLS.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, "h2") {
			return nil, nil
		}
		refusals++
		refusing := server.TLS.Clone()
		refusing.GetConfigForClient, refusing.NextProtos = nil, []string{"another"}
		return refusing, nil
	}
	client := clientWithConnections(t, server.config)
	for range 2 {
		r, err := http.NewRequestWithContext(bounded(t), http.MethodPatch, server.URL, strings.NewReader("a: b"))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	if got := server.protocols(); got["HTTP/2.0"] != 2 || refusals != 1 || !slices.Equal(bodies, []string{"a: b", "a: b"}) {
		t.Errorf("requests by protocol: %v; %d refused connections; bodies %q", got, refusals, bodies)
	}
}

func TestIdleConnectionsCanBeClosed(t *testing.T) {
	server := newConnectionServer(t, nil)
	config, closeIdle, err := UseConnections(server.config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := request(bounded(t), client, http.MethodGet, server.URL); err != nil {
		t.Fatal(err)
	}
	closeIdle()
	if got := <-server.closed; got != server.last().RemoteAddr {
		t.Errorf("%s was closed, not %s", got, server.last().RemoteAddr)
	}
}
