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
	"google.golang.org/grpc/status"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Endpoint is where a function is served.
type Endpoint struct {
	// Target is a host and a port, or another target that gRPC understands.
	Target string
	// ServerName is the name in the function's certificate, if it is not the host's.
	ServerName string
	// Plain endpoints are called without TLS. They must be on the loopback interface,
	// where nobody else listens in,
	Plain bool
	// unless they are for development, and somebody has said so.
	Development bool
}

// Endpoints say where functions are served. A function that they do not know is an
// UnknownError.
type Endpoints interface {
	Endpoint(ctx context.Context, name string) (Endpoint, error)
}

// RemoteOptions configure a Remote. Only Endpoints is required.
type RemoteOptions struct {
	Endpoints Endpoints
	// Certificates for all endpoints that are not plain. Without them, these fail.
	Certificates Certificates
	// Bytes is how large a message may be: by default what Limits have.
	Bytes int
	// Idle is how long a connection is kept without a call: 10 minutes.
	Idle time.Duration
	// Now is the clock: time.Now.
	Now func() time.Time
}

// Remote calls functions by gRPC. It keeps one connection for each function, until its
// endpoint changes or it has not been called for a while; calls under way are not cut
// off by that. It speaks the older name of the service with functions that know no other.
//
// A call fails at once if the function cannot be reached: it is for the caller to try
// again later.
type Remote struct {
	options RemoteOptions

	mu     sync.Mutex
	links  map[string]*link
	closed bool
}

// NewRemote makes a runner. It must be closed.
func NewRemote(o RemoteOptions) *Remote {
	if o.Bytes == 0 {
		o.Bytes = Limits{}.withDefaults().Bytes
	}
	if o.Idle == 0 {
		o.Idle = 10 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Remote{options: o, links: map[string]*link{}}
}

// Run calls the function at its endpoint.
func (r *Remote) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	endpoint, err := r.options.Endpoints.Endpoint(ctx, name)
	var unknown *UnknownError
	switch {
	case errors.As(err, &unknown), err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		return nil, &CallError{Code: codes.Unavailable.String(), Message: shorten(err.Error()), Err: err}
	}
	l, err := r.take(name, endpoint)
	if err != nil {
		return nil, err
	}
	defer r.giveBack(l)
	return l.run(ctx, request)
}

// Close closes all connections; calls under way end first.
func (r *Remote) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for name := range r.links {
		r.retire(name)
	}
}

// Connections is how many are kept.
func (r *Remote) Connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.links)
}

var errClosed = &CallError{Code: "Canceled", Message: "the runner of functions has been closed"}

// take returns the connection to an endpoint, which is given back after the call.
func (r *Remote) take(name string, endpoint Endpoint) (*link, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errClosed
	}
	now := r.options.Now()
	for other, l := range r.links {
		if other == name && l.endpoint != endpoint || l.calls == 0 && now.Sub(l.used) > r.options.Idle {
			r.retire(other)
		}
	}
	l := r.links[name]
	if l == nil {
		connection, err := r.dial(endpoint)
		if err != nil {
			return nil, err
		}
		l = &link{endpoint: endpoint, connection: connection}
		r.links[name] = l
	}
	l.calls++
	l.used = now
	return l, nil
}

func (r *Remote) giveBack(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.calls--
	l.used = r.options.Now()
	if l.retired && l.calls == 0 {
		_ = l.connection.Close() // fails only if it is closed already
	}
}

// retire lets go of a connection: it is closed when its last call has ended.
func (r *Remote) retire(name string) {
	l := r.links[name]
	delete(r.links, name)
	l.retired = true
	if l.calls == 0 {
		_ = l.connection.Close()
	}
}

// check refuses what would be readable on the way.
func (e Endpoint) check(certificates Certificates) error {
	switch {
	case e.Target == "":
		return errors.New("the function has no endpoint")
	case !e.Plain && certificates == nil:
		return errors.New("there are no certificates to call functions with")
	case e.Plain && !e.Development && !Loopback(e.Target):
		return fmt.Errorf("%s is neither on the loopback interface nor for development: it is not called without TLS", e.Target)
	}
	return nil
}

// Loopback says whether a target is on this machine, so that nobody else can listen in.
func Loopback(target string) bool {
	for _, scheme := range []string{"dns:///", "passthrough:///"} {
		target = strings.TrimPrefix(target, scheme)
	}
	if strings.HasPrefix(target, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		host = target
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// link is a connection to an endpoint.
type link struct {
	endpoint   Endpoint
	connection *grpc.ClientConn
	beta       atomic.Bool // it is known to know only the older name of the service

	// These are the Remote's, under its lock.
	calls   int
	used    time.Time
	retired bool
}

func (l *link) run(ctx context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	stable := func() (*fnv1.RunFunctionResponse, error) {
		return fnv1.NewFunctionRunnerServiceClient(l.connection).RunFunction(ctx, request)
	}
	older := func() (*fnv1.RunFunctionResponse, error) { return fnv1.RunBeta(ctx, l.connection, request) }
	first, second := stable, older
	onlyBeta := l.beta.Load()
	if onlyBeta {
		first, second = older, stable
	}
	response, err := first()
	if status.Code(err) != codes.Unimplemented {
		return response, err
	}
	response, err2 := second()
	if status.Code(err2) == codes.Unimplemented {
		return nil, err // it knows neither; what it says of the one it was expected to know is as good
	}
	l.beta.Store(!onlyBeta)
	return response, err2
}
