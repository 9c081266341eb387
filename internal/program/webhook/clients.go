package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/espalier-dev/espalier/internal/telemetry"
)

const clientCAInterval = 10 * time.Second

// clientAuthorities are the certificate authorities of the API server's client certificate, from
// a file that may change.
type clientAuthorities struct {
	file string
	// names are the allowed common names; none for any.
	names []string
	log   logr.Logger
	now   func() time.Time

	raw  []byte // of the last file that was valid
	pool atomic.Pointer[x509.CertPool]
}

// load reads the file. If it is not valid, the former authorities stay.
func (c *clientAuthorities) load() error {
	raw, err := os.ReadFile(c.file)
	if err != nil {
		return fmt.Errorf("webhook.clientCA: %w", err)
	}
	if bytes.Equal(raw, c.raw) {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(raw) {
		return fmt.Errorf("webhook.clientCA: %s has no certificate in PEM", c.file)
	}
	c.raw = raw
	c.pool.Store(pool)
	return nil
}

func (c *clientAuthorities) loadLoop(ctx context.Context) {
	due := time.NewTicker(clientCAInterval)
	defer due.Stop()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		}
		err := c.load()
		if err != nil && err.Error() != said {
			c.log.Error(err, "cannot reload the authorities of client certificates; the former ones stay")
		}
		said = ""
		if err != nil {
			said = err.Error()
		}
	}
}

// config requests a certificate in each handshake. It is optional there because the API server presents one to
// admission webhooks only, and verified for each request, so an open connection outlives neither its certificate nor
// the authority.
func (c *clientAuthorities) config(base *tls.Config) *tls.Config {
	base = base.Clone()
	base.ClientAuth = tls.RequestClientCert
	return base
}

// check returns nil if the client is the API server.
func (c *clientAuthorities) check(state *tls.ConnectionState) error {
	if state == nil || len(state.PeerCertificates) == 0 {
		return errors.New("the client presents no certificate of the authorities in webhook.clientCA; " +
			"the API server presents the one in kubeConfigFile of its AdmissionConfiguration")
	}
	certificate := state.PeerCertificates[0]
	between := x509.NewCertPool()
	for _, other := range state.PeerCertificates[1:] {
		between.AddCert(other)
	}
	_, err := certificate.Verify(x509.VerifyOptions{
		Roots: c.pool.Load(), Intermediates: between, CurrentTime: c.now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("the client's certificate is not valid by the authorities in webhook.clientCA: %w", err)
	}
	if len(c.names) > 0 && !slices.Contains(c.names, certificate.Subject.CommonName) {
		return fmt.Errorf("the common name of the client's certificate is not in webhook.clientNames (%s)", strings.Join(c.names, ", "))
	}
	return nil
}

// require serves only requests of the API server.
func (c *clientAuthorities) require(name string, metrics *telemetry.Webhooks, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.check(r.TLS); err != nil {
			// Not Unauthorized: the API server would not repeat the text.
			metrics.Observe(name, http.StatusForbidden)
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
