package security

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/serving/cluster"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// TestMetricsAreForThoseWhoMayGetThem reads the endpoints of a program with --metrics-secure as a
// network neighbour, as a tenant, and as a monitoring system with a role for them.
func TestMetricsAreForThoseWhoMayGetThem(t *testing.T) {
	s := suite.New(t)
	metrics, probes := free(t), free(t)
	ready, ended := make(chan struct{}), make(chan error, 1)
	m, err := manager.New(manager.Options{
		Name: strings.ReplaceAll(testkit.Group(t), ".", "-"), Version: "test", Config: s.Config, HealthAddress: probes, MetricsAddress: metrics, MetricsSecure: true, Ready: ready,
	}, func(env manager.Environment) (manager.Controllers, error) {
		k, err := cluster.New(cluster.Options{Config: env.Config, Workers: 1})
		return installation{k}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { ended <- m.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	<-ready

	nobody := "an invalid token"
	tenant := tokenOf(t, s, "tenant", s.NS, `[{apiGroups: [""], resources: [secrets], verbs: ["*"]}]`)
	monitor := tokenOf(t, s, "monitor", "", `[{nonResourceURLs: [/metrics, /readyz/verbose], verbs: [get]}]`)
	for _, c := range []struct {
		url, token string
		status     int
		body       string
	}{
		{"https://" + metrics + "/metrics", "", http.StatusUnauthorized, "no bearer token"},
		{"https://" + metrics + "/metrics", nobody, http.StatusUnauthorized, "does not accept the token"},
		{"https://" + metrics + "/metrics", tenant, http.StatusForbidden, `user "system:serviceaccount:` + s.NS + `:tenant" is not allowed to get the path /metrics`},
		{"https://" + metrics + "/metrics", monitor, http.StatusOK, "espalier_metrics_requests_total"},
		{"https://" + metrics + "/readyz/verbose", "", http.StatusUnauthorized, "no bearer token"},
		{"https://" + metrics + "/readyz/verbose", tenant, http.StatusForbidden, "/readyz/verbose"},
		{"https://" + metrics + "/readyz/verbose", monitor, http.StatusOK, "[+]controllers ok"},
		{"http://" + probes + "/readyz?verbose", "", http.StatusOK, "ok"},
		{"http://" + probes + "/metrics", "", http.StatusNotFound, ""},
	} {
		status, body := get(t, c.url, c.token)
		if status != c.status || !strings.Contains(body, c.body) || c.body == "ok" && body != "ok" {
			t.Errorf("%s: %d: %.300s; want %d: %s", c.url, status, body, c.status, c.body)
		}
	}
}

// get reads a URL with a token. The certificate is self-signed.
func get(t *testing.T, url, token string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(raw)
}

// free is an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
