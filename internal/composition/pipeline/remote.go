package pipeline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/espalier-dev/espalier/internal/telemetry/tracing"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Endpoint is the address of a function.
type Endpoint struct {
	// Target is a host with a port, or any other gRPC target.
	Target string
	// ServerName is the name in the function's certificate, if it isn't the host.
	ServerName string
	// Revision is what serves at the address: another one gets a connection of its own, which resolves the name again.
	Revision string
	// Insecure endpoints are called without TLS. They must be on the loopback interface,
	// where traffic can't be intercepted.
	Insecure bool
}

// Endpoints resolves functions to endpoints. It returns an UnknownFunctionError for a
// function that it doesn't know. It must be safe for concurrent use.
type Endpoints interface {
	Endpoint(ctx context.Context, name string) (Endpoint, error)
}

// RemoteOptions configure a Remote. Only Endpoints is required.
type RemoteOptions struct {
	Endpoints Endpoints
	// Certificates are for endpoints that aren't Insecure. Without them, calls to those fail.
	Certificates Certificates
	// MaxBytes is how large a message may be. The default is the one of CallLimits.
	MaxBytes int
	// IdleTimeout is how long a connection is kept without a call. The default is 10 minutes.
	IdleTimeout time.Duration
	// Now is the clock. The default is time.Now.
	Now func() time.Time
}

// Remote calls functions by gRPC. It keeps one connection for each function until the
// function's endpoint changes or the connection has been idle for IdleTimeout; calls in
// flight complete first. It falls back to the v1beta1 service for functions that don't
// implement v1. It is safe for concurrent use.
//
// A call fails at once if the function cannot be reached; the caller retries.
type Remote struct {
	options RemoteOptions

	mu          sync.Mutex
	connections map[string]*connection
	closed      bool
}

// NewRemote returns a runner. The caller must close it.
func NewRemote(o RemoteOptions) *Remote {
	if o.MaxBytes == 0 {
		o.MaxBytes = CallLimits{}.withDefaults().MaxBytes
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = 10 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Remote{options: o, connections: map[string]*connection{}}
}

// Run calls the function at its endpoint.
func (r *Remote) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	endpoint, err := r.options.Endpoints.Endpoint(ctx, name)
	var unknown *UnknownFunctionError
	switch {
	case errors.As(err, &unknown), err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, &CallError{Code: codes.Unavailable.String(), Message: shorten(err.Error()), Err: err}
	}
	l, err := r.acquire(name, endpoint)
	if err != nil {
		return nil, err
	}
	defer r.release(l)
	return l.call(ctx, request)
}

// Close closes all connections. Calls in flight complete first; later calls fail.
func (r *Remote) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for name := range r.connections {
		r.closeWhenIdle(name)
	}
}

// Reconnect closes the connections to functions once their last calls have returned. The next call connects
// with the current certificates, and does not wait until a connection that failed is tried again.
func (r *Remote) Reconnect(names ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if r.connections[name] != nil {
			r.closeWhenIdle(name)
		}
	}
}

// Connections is the number of connections that are kept.
func (r *Remote) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.connections)
}

var errClosed = &CallError{Code: "Canceled", Message: "the runner of functions is closed"}

// acquire returns the connection to an endpoint, which the caller must release. It also
// closes idle connections of other functions.
func (r *Remote) acquire(name string, endpoint Endpoint) (*connection, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	now := r.options.Now()
	for other, l := range r.connections {
		if other == name && l.endpoint != endpoint || l.activeCalls == 0 && now.Sub(l.lastUsed) > r.options.IdleTimeout {
			r.closeWhenIdle(other)
		}
	}
	l := r.connections[name]
	if l == nil {
		client, err := r.dial(endpoint)
		if err != nil {
			return nil, err
		}
		l = &connection{endpoint: endpoint, client: client}
		r.connections[name] = l
	}
	l.activeCalls++
	l.lastUsed = now
	return l, nil
}

func (r *Remote) release(l *connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.activeCalls--
	l.lastUsed = r.options.Now()
	if l.closing && l.activeCalls == 0 {
		_ = l.client.Close() // fails only if it is closed already
	}
}

// closeWhenIdle removes a connection and closes it once its last call has returned.
func (r *Remote) closeWhenIdle(name string) {
	l := r.connections[name]
	delete(r.connections, name)
	l.closing = true
	if l.activeCalls == 0 {
		_ = l.client.Close()
	}
}

// check returns an error if traffic to the endpoint could be intercepted.
func (e Endpoint) check(certificates Certificates) error {
	switch {
	case e.Target == "":
		return errors.New("the function has no endpoint")
	case !e.Insecure && certificates == nil:
		return errors.New("no client certificate to call functions with")
	case e.Insecure && !IsLoopback(e.Target):
		return fmt.Errorf("%s is not a loopback address: calls require TLS", e.Target)
	}
	return nil
}

// IsLoopback reports whether a target is on this machine, so its traffic can't be intercepted.
func IsLoopback(target string) bool {
	if strings.HasPrefix(target, "unix:") {
		return true
	}
	for _, scheme := range []string{"dns:///", "passthrough:///"} { // dns:///unix:1 is a port of a host named unix
		target = strings.TrimPrefix(target, scheme)
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		host = target
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

type connection struct {
	endpoint Endpoint
	client   *grpc.ClientConn
	betaOnly atomic.Bool // the function implements only the v1beta1 service

	// The fields below are guarded by Remote.mu.
	activeCalls int
	lastUsed    time.Time
	closing     bool
}

func (l *connection) call(ctx context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	if headers := tracing.Headers(ctx); headers != nil {
		ctx = metadata.AppendToOutgoingContext(ctx, headers...)
	}
	stable := func() (*fnv1.RunFunctionResponse, error) {
		return fnv1.NewFunctionRunnerServiceClient(l.client).RunFunction(ctx, request)
	}
	older := func() (*fnv1.RunFunctionResponse, error) { return fnv1.RunBeta(ctx, l.client, request) }
	first, second := stable, older
	onlyBeta := l.betaOnly.Load()
	if onlyBeta {
		first, second = older, stable
	}
	response, err := first()
	if status.Code(err) != codes.Unimplemented {
		return response, err
	}
	response, err2 := second()
	if status.Code(err2) == codes.Unimplemented {
		return nil, err // it implements neither
	}
	l.betaOnly.Store(!onlyBeta)
	return response, err2
}
