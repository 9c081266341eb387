package awscloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/providers/aws/catalog"
	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

// DefaultRegion is the region of requests that name none.
const DefaultRegion = "us-east-1"

// Options are how a cloud is started.
type Options struct {
	// Program is the path of ministack; empty to install it with hack/testcloud.sh of the checkout that
	// has the working directory.
	Program string
	// Listen is the address of the endpoint, on the loopback interface; empty for a free port.
	Listen string
	// Type returns the schema of a resource type; nil for the catalog's.
	Type func(name string) (*resourcetype.Type, error)
}

// Cloud is a running test cloud. Its methods may be called at any time.
type Cloud struct {
	// Endpoint is the URL of all its APIs.
	Endpoint string

	backend string
	region  string
	types   func(string) (*resourcetype.Type, error)
	client  *http.Client
	proxy   *httputil.ReverseProxy
	process *process
	server  *http.Server
	effects sync.WaitGroup
	ctx     context.Context //nolint:containedctx // it ends the effects of requests, which outlive the call that began them
	cancel  context.CancelFunc

	// beginning is held from the check of a ClientToken until its request has begun.
	beginning sync.Mutex

	mu         sync.Mutex
	offset     time.Duration
	accounts   map[string]string
	parsed     map[string]*resourcetype.Type
	attributes map[string][]attribute
	resources  map[key]*resource
	requests   map[string]*request
	tokens     map[tokenKey]*request
	busy       map[key]*request
	sequence   int
	behavior   behavior
	faults     []*Fault
	journal    []Call
}

// Start starts a cloud for a test, and stops it when the test ends. If the test fails, the cloud's log
// is in its output.
func Start(t testing.TB) *Cloud {
	t.Helper()
	c, err := Run(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop()
		if t.Failed() {
			t.Logf("output of the test cloud:\n%s", c.process.output)
		}
	})
	return c
}

// Run starts a cloud. The caller stops it.
func Run(ctx context.Context, options Options) (*Cloud, error) {
	program, err := options.Program, error(nil)
	if program == "" {
		if program, err = install(ctx); err != nil {
			return nil, err
		}
	}
	process, err := startProcess(ctx, program)
	if err != nil {
		return nil, err
	}
	c, err := serve(process, options)
	if err != nil {
		process.stop()
		return nil, err
	}
	return c, nil
}

func serve(p *process, options Options) (*Cloud, error) {
	target, err := url.Parse(p.url)
	if err != nil {
		return nil, err
	}
	address := options.Listen
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if bound, ok := listener.Addr().(*net.TCPAddr); !ok || !bound.IP.IsLoopback() {
		listener.Close()
		return nil, fmt.Errorf("listen on %s: the test cloud checks no credentials, and only serves the loopback interface", address)
	}
	ctx, cancel := context.WithCancel(context.Background())
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	c := &Cloud{
		Endpoint: "http://" + listener.Addr().String(), backend: p.url, region: DefaultRegion, process: p, ctx: ctx, cancel: cancel,
		types: options.Type, client: &http.Client{Transport: transport},
		proxy: &httputil.ReverseProxy{Transport: transport,
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }},
		accounts: map[string]string{}, parsed: map[string]*resourcetype.Type{}, attributes: map[string][]attribute{},
		resources: map[key]*resource{}, requests: map[string]*request{}, tokens: map[tokenKey]*request{}, busy: map[key]*request{},
	}
	if c.types == nil {
		c.types = catalog.Get
	}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}
	go func() {
		if err := c.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(p.output, "the endpoint of the test cloud ended:", err)
		}
	}()
	return c, nil
}

// Stop stops the cloud. Everything in it is gone.
func (c *Cloud) Stop() {
	c.cancel()
	_ = c.server.Close() // Its connections do not matter any more.
	c.effects.Wait()
	c.process.stop()
	c.client.CloseIdleConnections()
}

// Exited is closed when the implementation has ended, which it should not do before Stop.
func (c *Cloud) Exited() <-chan struct{} { return c.process.exited }

// Output returns the last of what the implementation wrote.
func (c *Cloud) Output() string { return c.process.output.String() }

// Now returns the time on the cloud's clock, which tokens and requests expire by.
func (c *Cloud) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Cloud) now() time.Time { return time.Now().Add(c.offset) }

// Advance moves the cloud's clock forward.
func (c *Cloud) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

// typeOf returns the schema of a type, and reads it only once.
func (c *Cloud) typeOf(name string) (*resourcetype.Type, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.parsed[name]; t != nil {
		return t, nil
	}
	t, err := c.types(name)
	if err != nil {
		return nil, &apiError{"TypeNotFoundException", fmt.Sprintf("The type '%s' cannot be found.", name)}
	}
	c.parsed[name] = t
	return t, nil
}

// accountOf returns the account of a caller.
func (c *Cloud) accountOf(ctx context.Context, from caller) (string, error) {
	c.mu.Lock()
	account, ok := c.accounts[from.accessKey]
	c.mu.Unlock()
	if ok {
		return account, nil
	}
	answer, err := from.query(ctx, "sts", "GetCallerIdentity", nil)
	if err != nil {
		return "", err
	}
	account = answer.get("GetCallerIdentityResult", "Account").text
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accounts[from.accessKey] = account
	return account, nil
}
