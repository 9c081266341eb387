package account

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/espalier-dev/espalier/providers/aws/response"
	"github.com/espalier-dev/espalier/sdk/managed/external"
)

// Limits of requests.
const (
	// maxResponse limits the memory that a service can make this program use for a response: decoded, it takes
	// about 50 times as much.
	maxResponse = 4 << 20
	// requestTimeout limits a request, with its response.
	requestTimeout = 90 * time.Second
	connectTimeout = 10 * time.Second
)

// A service that does not respond blocks a worker of the whole program for each of its objects. So the
// requests of a namespace's configuration to endpoints of its own are limited: further ones fail after a short
// wait, and are retried.
const (
	maxConcurrent        = 4
	maxUntrustedResponse = 1 << 20
	// untrustedTimeout limits a request, with its response.
	untrustedTimeout = 15 * time.Second
	maxQueueTime     = 2 * time.Second
	// retryQueued is after what time what was not sent is repeated.
	retryQueued = 10 * time.Second
)

func (o Options) newTransport(s settings) (*http.Transport, error) {
	roots, err := s.roots()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: connectTimeout, KeepAlive: 30 * time.Second}
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		ForceAttemptHTTP2:   true,
		TLSHandshakeTimeout: connectTimeout, ResponseHeaderTimeout: requestTimeout, IdleConnTimeout: time.Minute,
		MaxIdleConnsPerHost: 8, MaxResponseHeaderBytes: 64 << 10,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
	}
	if s.untrusted() != "" {
		// A proxy could reach addresses that are denied here, and the address of a request through it is not
		// known.
		t.Proxy = nil
		if !o.LocalEndpoints {
			dialer.Control = func(network, address string, _ syscall.RawConn) error { return checkAddress(network, address) }
		}
	}
	return t, nil
}

// They are nil for the authorities of the system.
func (s settings) roots() (*x509.CertPool, error) {
	bundle := os.Getenv("AWS_CA_BUNDLE")
	if s.CA == "" && bundle == "" {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if s.CA != "" && !roots.AppendCertsFromPEM([]byte(s.CA)) {
		return nil, errors.New("spec.endpoint.caSecretRef: the Secret has no valid certificate")
	}
	if bundle != "" {
		raw, err := os.ReadFile(bundle)
		if err != nil {
			return nil, fmt.Errorf("the environment variable AWS_CA_BUNDLE: %w", err)
		}
		roots.AppendCertsFromPEM(raw)
	}
	return roots, nil
}

// It follows no redirects, and limits responses.
type client struct {
	http        *http.Client
	slots       chan struct{} // nil for no limit
	maxResponse int64
}

func newClient(s settings, t *http.Transport) *client {
	c := &client{maxResponse: maxResponse, http: &http.Client{
		Transport: t, Timeout: requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if s.untrusted() != "" {
		c.slots, c.maxResponse, c.http.Timeout = make(chan struct{}, maxConcurrent), maxUntrustedResponse, untrustedTimeout
	}
	return c
}

// Do makes a request. It has its slot until the body of the response is closed.
func (c *client) Do(r *http.Request) (*http.Response, error) {
	release := func() {}
	if c.slots != nil {
		timeout := time.NewTimer(maxQueueTime)
		defer timeout.Stop()
		select {
		case c.slots <- struct{}{}:
			release = sync.OnceFunc(func() { <-c.slots })
		case <-timeout.C:
			return nil, &external.OpError{
				Message: fmt.Sprintf("%d requests of the configuration wait for its endpoints to respond; this one was not sent, and is retried", maxConcurrent),
				Class:   external.Rejected, RetryAfter: retryQueued,
			}
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
	answer, err := response.WithBufferedBodies(c.http).Do(r)
	if err != nil {
		release()
		return nil, err
	}
	answer.Body = &limitedBody{answer.Body, c.maxResponse, c.maxResponse, release}
	return answer, nil
}

// It returns an error when a response is too large.
type limitedBody struct {
	io.ReadCloser
	left, limit int64
	release     func()
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, &response.TooLargeError{Limit: b.limit}
	}
	return n, err
}

func (b *limitedBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}
