// Package proxy runs tests behind an HTTP proxy.
package proxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// behind is the variable of the process that Behind starts.
const behind = "ESPALIER_TEST_BEHIND_PROXY"

// Proxy connects every CONNECT request to one server, whatever host is requested.
type Proxy struct {
	mu     sync.Mutex
	server string
	hosts  []string
}

// Behind runs a test in a process of its own, whose HTTPS_PROXY is the proxy: Go reads the variables of proxies only once.
func Behind(t *testing.T, test func(*Proxy)) {
	t.Helper()
	if os.Getenv(behind) != "" {
		p := &Proxy{}
		server := httptest.NewServer(p)
		t.Cleanup(server.Close)
		for name, value := range map[string]string{"HTTPS_PROXY": server.URL, "NO_PROXY": "excluded.example", "no_proxy": ""} {
			t.Setenv(name, value)
		}
		test(p)
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	command := exec.CommandContext(t.Context(), program, "-test.run="+pattern, "-test.count=1", "-test.v")
	command.Env = append(os.Environ(), behind+"=1")
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") {
		t.Fatalf("behind a proxy: %v\n%s", err, out)
	}
}

// ConnectTo sets the address of the server.
func (p *Proxy) ConnectTo(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = address
}

// CheckHosts compares which hosts were requested, each with its port, sorted.
func (p *Proxy) CheckHosts(t *testing.T, want ...string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	slices.Sort(p.hosts)
	if got := slices.Compact(p.hosts); !slices.Equal(got, want) {
		t.Errorf("the proxy was requested to connect to %q, not %q", got, want)
	}
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.hosts = append(p.hosts, r.Host)
	address := p.server
	p.mu.Unlock()
	if r.Method != http.MethodConnect {
		http.Error(w, "the proxy only connects", http.StatusMethodNotAllowed)
		return
	}
	server, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer client.Close()
	if _, err := fmt.Fprint(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	go func() { _, _ = io.Copy(server, buffered) }() // ends when the client is closed
	_, _ = io.Copy(client, server)
}
