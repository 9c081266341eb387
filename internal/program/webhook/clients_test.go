package webhook

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// authority is a certificate authority that a test has made up.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func certificate(t *testing.T, name string, by *authority, uses ...x509.ExtKeyUsage) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: by == nil, BasicConstraintsValid: true, ExtKeyUsage: uses,
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return authority{parsed, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})}
}

func (a authority) presented() []tls.Certificate {
	return []tls.Certificate{{Certificate: [][]byte{a.certificate.Raw}, PrivateKey: a.key}}
}

// TestOnlyTheAPIServerHasDeletionsAnswered presents client certificates to both webhooks.
func TestOnlyTheAPIServerHasDeletionsAnswered(t *testing.T) {
	ca, other := certificate(t, "cluster", nil), certificate(t, "another", nil)
	api := certificate(t, "apiserver", &ca, x509.ExtKeyUsageClientAuth)
	cases := map[string]struct {
		reason   string
		presents []tls.Certificate
		names    []string
		now      time.Time
		status   int
		says     string
	}{
		"the API server":                  {"it is known", api.presented(), nil, time.Now(), 200, ""},
		"the API server by its name":      {"it is allowed", api.presented(), []string{"x", "apiserver"}, time.Now(), 200, ""},
		"another client of the authority": {"the name is not allowed", api.presented(), []string{"x", "y"}, time.Now(), 403, "webhook.clientNames (x, y)"},
		"anybody":                         {"there is no certificate", nil, nil, time.Now(), 403, "kubeConfigFile"},
		"a client of another authority":   {"anybody can make one", certificate(t, "apiserver", &other, x509.ExtKeyUsageClientAuth).presented(), nil, time.Now(), 403, "webhook.clientCA"},
		"a server of the authority":       {"its certificate is not for clients", certificate(t, "apiserver", &ca, x509.ExtKeyUsageServerAuth).presented(), nil, time.Now(), 403, "webhook.clientCA"},
		"an expired certificate":          {"the authority has not renewed it", api.presented(), nil, time.Now().Add(2 * time.Hour), 403, "expired"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "ca.crt")
			if err := os.WriteFile(file, ca.pem, 0o600); err != nil {
				t.Fatal(err)
			}
			uses := &told{uses: []usage.Usage{{Reason: "because"}}}
			s := &Server{
				Options: Options{ClientCA: file, ClientNames: tc.names}, Usages: uses, Converters: NewConverterCache(&library{}),
				Now: func() time.Time { return tc.now }, Log: logr.Discard(),
			}
			clients, err := s.clients()
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewUnstartedServer(s.handler(clients))
			server.TLS = clients.config(&tls.Config{MinVersion: tls.VersionTLS12})
			server.StartTLS()
			defer server.Close()
			client := server.Client()
			config := client.Transport.(*http.Transport).TLSClientConfig
			// It presents the certificate whatever authorities the server names.
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(tc.presents) == 0 {
					return &tls.Certificate{}, nil
				}
				return &tc.presents[0], nil
			}
			answer, err := client.Post(server.URL+Path, "application/json", strings.NewReader(review(asked)))
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != tc.status || !strings.Contains(string(text), tc.says) {
				t.Errorf("%s: it answers %d %s", tc.reason, answer.StatusCode, text)
			}
			if recorded := len(uses.tried) > 0; recorded != (tc.status == http.StatusOK) {
				t.Errorf("%s: recorded are %v", tc.reason, uses.tried)
			}
			converted, err := client.Post(server.URL+install.ConversionPath+"x/y", "application/json", strings.NewReader("{"))
			if err != nil {
				t.Fatal(err)
			}
			defer converted.Body.Close()
			if converted.StatusCode != http.StatusBadRequest {
				t.Error("a conversion needs a certificate, which the API server presents to admission webhooks only")
			}
		})
	}
}

func TestAFileWithoutAuthoritiesIsAnError(t *testing.T) {
	for reason, content := range map[string]string{"it is not there": "", "it has no certificate": "-----BEGIN"} {
		file := filepath.Join(t.TempDir(), "ca.crt")
		if content != "" {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s := &Server{Options: Options{Address: "127.0.0.1:0", ClientCA: file}, Log: logr.Discard()}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "webhook.clientCA: ") || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// TestTheAuthoritiesAreThoseOfTheFile replaces the file while connections are open.
func TestTheAuthoritiesAreThoseOfTheFile(t *testing.T) {
	before, after := certificate(t, "before", nil), certificate(t, "after", nil)
	old, renewed := certificate(t, "api", &before, x509.ExtKeyUsageClientAuth), certificate(t, "api", &after, x509.ExtKeyUsageClientAuth)
	file := filepath.Join(t.TempDir(), "ca.crt")
	synctest.Test(t, func(t *testing.T) {
		c := &clientAuthorities{file: file, log: logr.Discard(), now: old.certificate.NotBefore.Add(time.Hour).UTC}
		steps := []struct {
			reason       string
			content      []byte
			old, renewed bool
		}{
			{"it begins with one", before.pem, true, false},
			{"both are trusted while certificates are replaced", bytes.Join([][]byte{before.pem, after.pem}, nil), true, true},
			{"a connection does not outlive its authority", after.pem, false, true},
			{"a file that is being written changes nothing", []byte("-----BEGIN"), false, true},
		}
		for i, step := range steps {
			if err := os.WriteFile(file, step.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if err := c.load(); err != nil {
					t.Fatal(err)
				}
				go c.loadLoop(t.Context())
			}
			<-time.After(clientCAInterval) // of the bubble
			synctest.Wait()
			for _, of := range []struct {
				authority
				want bool
			}{{old, step.old}, {renewed, step.renewed}} {
				err := c.check(&tls.ConnectionState{PeerCertificates: []*x509.Certificate{of.certificate}})
				if (err == nil) != of.want {
					t.Errorf("%s: %v", step.reason, err)
				}
			}
		}
	})
}
