package kube

import (
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// maxConnections bounds the connections that UseConnections opens. client-go keeps 25 idle ones; a
// connection beyond those would be closed after each request.
const maxConnections = 24

// unusedLimit is how long connections may be unused before new ones are opened instead. The API server
// closes those that are idle for 90 seconds, and proxies often after 60. A request on one that is being
// closed fails.
const unusedLimit = 30 * time.Second

// UseConnections returns a copy of the configuration whose requests with a deadline use a connection each, by
// HTTP/1.1, as long as no more than 24 are in flight. All others share one, by HTTP/2: watches, which are many, and
// what has no deadline, since only HTTP/2 detects that a connection is dead. The TLS settings of the copy must not be
// changed.
//
// Client and server need less CPU time for a small request by HTTP/1.1 (docs/design/0050-the-weight-of-an-instance.md),
// and a load balancer divides connections among the API servers.
//
// A server that accepts no HTTP/1.1 gets all requests by HTTP/2.
// With a custom transport, or a plugin that provides certificates, the configuration is returned as it is.
//
// Connections that are idle stay open for 90 seconds, or until closeIdle is called.
func UseConnections(config *rest.Config) (out *rest.Config, closeIdle func(), err error) {
	return useConnections(config, time.Now)
}

func useConnections(config *rest.Config, now func() time.Time) (out *rest.Config, closeIdle func(), err error) {
	if config.Transport != nil || config.ExecProvider != nil || config.AuthProvider != nil {
		return config, func() {}, nil
	}
	// Credentials are added on the outside, as all that the configuration wraps.
	single := &rest.Config{TLSClientConfig: config.TLSClientConfig, Proxy: config.Proxy, Dial: config.Dial, DisableCompression: config.DisableCompression}
	single.NextProtos = []string{"http/1.1"}
	pool, err := rest.TransportFor(single)
	if err != nil {
		return nil, nil, err
	}
	c := &connections{pool: pool, now: now}
	out = rest.CopyConfig(config)
	out.WrapTransport = transport.Wrappers(func(next http.RoundTripper) http.RoundTripper { return connectionChooser{c, next} }, config.WrapTransport)
	return out, c.closeIdle, nil
}

// connections are those for requests by HTTP/1.1.
type connections struct {
	pool     http.RoundTripper
	now      func() time.Time
	inFlight atomic.Int32
	used     atomic.Int64 // when the last request began, in nanoseconds since 1970
	http1    atomic.Int32 // whether the server, or a proxy before it, accepts HTTP/1.1
}

// Whether a server accepts HTTP/1.1.
const (
	unknown = iota
	accepted
	refused
)

func (c *connections) closeIdle() { utilnet.CloseIdleConnectionsFor(c.pool) }

// connectionChooser sends some requests by HTTP/1.1, and others by another transport.
type connectionChooser struct {
	*connections
	shared http.RoundTripper
}

// RoundTrip makes a request.
func (c connectionChooser) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, bounded := r.Context().Deadline(); !bounded || isWatch(r) || c.http1.Load() == refused {
		return c.shared.RoundTrip(r)
	}
	defer c.inFlight.Add(-1)
	if c.inFlight.Add(1) > maxConnections {
		return c.shared.RoundTrip(r)
	}
	now := c.now().UnixNano()
	if now-c.used.Swap(now) > int64(unusedLimit) {
		c.closeIdle()
	}
	answer, err := c.pool.RoundTrip(r)
	if err == nil {
		c.http1.CompareAndSwap(unknown, accepted)
		return answer, nil
	}
	c.closeIdle() // those to a dead server would each delay another request
	if alert := (*net.OpError)(nil); c.http1.Load() != unknown || !errors.As(err, &alert) || alert.Op != tlsAlert {
		return nil, err
	}
	again, bodyErr := unsent(r)
	if bodyErr != nil {
		return nil, err
	}
	if answer, err = c.shared.RoundTrip(again); err == nil {
		c.http1.CompareAndSwap(unknown, refused)
	}
	return answer, err
}

// tlsAlert is the operation of an error that the other side of a TLS connection has reported: that it accepts none of
// the offered protocols, for example (RFC 7301, section 3.2). crypto/tls exports no more of these errors.
const tlsAlert = "remote error"

// unsent returns a request whose body is read from its beginning.
func unsent(r *http.Request) (*http.Request, error) {
	if r.Body == nil {
		return r, nil
	}
	if r.GetBody == nil {
		return nil, errors.New("the body cannot be read again")
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = body
	return r, nil
}

// WrappedRoundTripper returns the transport of the requests that are not by HTTP/1.1.
func (c connectionChooser) WrappedRoundTripper() http.RoundTripper { return c.shared }
