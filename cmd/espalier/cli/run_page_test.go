package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/program/manager"
	"github.com/espalier-dev/espalier/internal/program/manager/introspect"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/certificate"
)

func TestThePageNeedsACertificateOrNone(t *testing.T) {
	config := &rest.Config{Host: "https://127.0.0.1:1"}
	for name, tc := range map[string]struct {
		page server.UIConfiguration
		says string
	}{
		"off":                       {server.UIConfiguration{BindAddress: "0"}, ""},
		"a self-signed certificate": {server.UIConfiguration{BindAddress: ":8443"}, ""},
		"a directory without one":   {server.UIConfiguration{BindAddress: ":8443", CertPath: t.TempDir()}, "ui.certPath: read the certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			serve, err := servePage(tc.page, config, funcr.New(func(string, string) {}, funcr.Options{}))
			if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v", err)
			}
			if (serve != nil) != (tc.page.BindAddress != "0" && tc.says == "") {
				t.Error("whether it is served")
			}
		})
	}
}

// issue writes a certificate of a new authority, and returns a client that trusts that.
func issue(t *testing.T, dir string) *http.Client {
	t.Helper()
	authority, err := certificate.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	public, key, err := authority.Issue("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"tls.crt": public, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority.PEM)
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
}

func TestThePageIsServedWithTLSUntilTheEnd(t *testing.T) {
	dir := t.TempDir()
	client := issue(t, dir)
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	log := funcr.New(func(string, string) {}, funcr.Options{})
	serve, err := servePage(server.UIConfiguration{BindAddress: address, CertPath: dir}, &rest.Config{Host: "https://127.0.0.1:1", BearerToken: "ours"}, log)
	if err != nil {
		t.Fatal(err)
	}
	program := manager.Introspection{Leads: func() bool { return false }}
	if err := serve(t.Context(), program); err == nil || !strings.Contains(err.Error(), "--ui-bind-address: ") {
		t.Errorf("an address that is taken: %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, program) }()
	get := func(from string) string {
		response, err := client.Get(from) //nolint:noctx // of a test
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			return err.Error()
		}
		return response.Status + " " + string(body)
	}
	testkit.PollFor(t, testkit.Timeout, "the login", func() bool { return strings.Contains(get("https://"+address+"/login"), `<label for="token">`) })
	if got := get("http://" + address + "/login"); !strings.HasPrefix(got, "400 ") {
		t.Errorf("without TLS: %s", got)
	}
	if got := get("https://" + address + "/api/overview"); !strings.HasPrefix(got, "401 ") {
		t.Errorf("without a token, the identity of the program is not used: %s", got)
	}
	client = issue(t, dir)
	testkit.PollFor(t, testkit.Timeout, "the new certificate", func() bool { return strings.HasPrefix(get("https://"+address+"/login"), "200 ") })
	stop()
	if err := <-ended; err != nil {
		t.Errorf("at the end: %v", err)
	}
}

func TestOnlyTheLeaderHasWatches(t *testing.T) {
	for _, leads := range []bool{true, false} {
		read := thisProgram(manager.Introspection{
			Leads:   func() bool { return leads },
			Watches: func() []introspect.Watch { return []introspect.Watch{{Kind: "Shop"}} },
			Queues:  func() []introspect.Queue { return []introspect.Queue{{Kind: "Shop"}} },
		})
		watches, queues, err := read(t.Context())
		if leads != (err == nil) || leads && (len(watches) != 1 || len(queues) != 1) {
			t.Errorf("leads: %t; got %v %v %v", leads, watches, queues, err)
		}
	}
}
