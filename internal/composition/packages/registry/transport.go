package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Options are how registries are reached.
type Options struct {
	// CABundle has certificates in PEM that are trusted in addition to the system's.
	CABundle []byte
	// Insecure are registries, as host or host:port, that are reached by plain HTTP, or without checking their certificates.
	Insecure []string
	// UserAgent is sent with each request.
	UserAgent string
}

// BusyError is returned when a registry asks for a longer wait than the context allows, or keeps refusing.
type BusyError struct {
	Host   string
	Status int
	// After is how long the registry asked to wait; 0 if it did not.
	After time.Duration
}

func (e *BusyError) Error() string {
	text := fmt.Sprintf("%s answers %d %s", e.Host, e.Status, http.StatusText(e.Status))
	if e.After > 0 {
		text += fmt.Sprintf(" and asks to wait %s", e.After.Round(time.Second))
	}
	return text
}

// transport sends requests to registries: by TLS except where said otherwise, a bounded number at a time, and again later if a registry cannot
// answer.
type transport struct {
	verified, unverified http.RoundTripper
	insecure             map[string]bool
	userAgent            string

	mu    sync.Mutex
	hosts map[string]*host
}

// host is what is known of a registry.
type host struct {
	slots chan struct{}
	mu    sync.Mutex
	// free is when it can be asked again.
	free time.Time
}

func newTransport(o Options) (*transport, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool() // a machine without certificates; the bundle may have them
	}
	if len(o.CABundle) > 0 && !roots.AppendCertsFromPEM(o.CABundle) {
		return nil, errors.New("the CA bundle has no certificate in PEM")
	}
	t := &transport{
		verified: newHTTP(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}),
		//nolint:gosec // only for registries that the user names as insecure
		unverified: newHTTP(&tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true}),
		insecure:   map[string]bool{}, userAgent: o.UserAgent, hosts: map[string]*host{},
	}
	for _, host := range o.Insecure {
		t.insecure[host] = true
	}
	return t, nil
}

func newHTTP(config *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connectLimit}).DialContext, TLSClientConfig: config, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: connectLimit, ResponseHeaderTimeout: headerLimit, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: maxPerRegistry,
	}
}

func (t *transport) host(name string) *host {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hosts[name] == nil {
		t.hosts[name] = &host{slots: make(chan struct{}, maxPerRegistry)}
	}
	return t.hosts[name]
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	isInsecure := t.insecure[request.URL.Host] || t.insecure[request.URL.Hostname()]
	if request.URL.Scheme != "https" && !isInsecure && !isLoopback(request.URL.Hostname()) {
		return nil, fmt.Errorf("%s would be reached by plain HTTP, which anybody on the way can read and change; name it as insecure if that is meant", request.URL.Host)
	}
	inner := t.verified
	if isInsecure {
		inner = t.unverified
	}
	if t.userAgent != "" {
		request = request.Clone(request.Context())
		request.Header.Set("User-Agent", t.userAgent)
	}
	h := t.host(request.URL.Host)
	for attempt := 1; ; attempt++ {
		response, err := h.send(inner, request)
		busy, again := assess(response, err, attempt, time.Now())
		if !again {
			return response, err
		}
		if response != nil {
			h.postpone(time.Now().Add(busy.After))
		}
		wait := max(busy.After, backoff(attempt))
		if deadline, has := request.Context().Deadline(); attempt == maxAttempts || !rewind(request) || has && time.Until(deadline) < wait {
			if response != nil {
				busy.Host = request.URL.Host
				response.Body.Close()
				return nil, busy
			}
			return nil, err
		}
		if response != nil {
			response.Body.Close()
		}
		if err := pause(request.Context(), wait); err != nil {
			return nil, err
		}
	}
}

// send sends a request in one of the host's slots, which is free again once the answer is read.
func (h *host) send(inner http.RoundTripper, request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	h.mu.Lock()
	wait := time.Until(h.free)
	h.mu.Unlock()
	if deadline, has := ctx.Deadline(); has && time.Until(deadline) < wait {
		return nil, &BusyError{Host: request.URL.Host, Status: http.StatusTooManyRequests, After: wait}
	}
	if err := pause(ctx, wait); err != nil {
		return nil, err
	}
	select {
	case h.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	response, err := inner.RoundTrip(request)
	if err != nil {
		<-h.slots
		return nil, err
	}
	response.Body = &slotBody{ReadCloser: response.Body, release: sync.OnceFunc(func() { <-h.slots })}
	return response, nil
}

// postpone lets no request begin before a time.
func (h *host) postpone(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.After(h.free) {
		h.free = until
	}
}

type slotBody struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (b *slotBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// assess decides whether a request can be sent again, and how long the registry asks to wait.
func assess(response *http.Response, err error, attempt int, now time.Time) (*BusyError, bool) {
	if err != nil {
		return &BusyError{}, attempt < maxConnects && isTransient(err)
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &BusyError{Status: response.StatusCode, After: retryAfter(response.Header.Get("Retry-After"), now)}, true
	}
	return nil, false
}

// retryAfter parses a header: seconds, or a date.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(maxRetryAfter/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// isTransient reports whether an error may go away by itself, which an invalid certificate does not.
func isTransient(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout() || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// backoff is the time before the next attempt: half a second, doubled each time, and up to a half more.
func backoff(attempt int) time.Duration {
	d := min(250*time.Millisecond<<attempt, maxBackoff)
	return d + rand.N(d/2)
}

// rewind makes the body of a request readable again. That of an upload may not be.
func rewind(request *http.Request) bool {
	if request.Body == nil || request.Body == http.NoBody {
		return true
	}
	if request.GetBody == nil {
		return false
	}
	body, err := request.GetBody()
	request.Body = body
	return err == nil
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
