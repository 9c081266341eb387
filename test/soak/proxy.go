package main

import (
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/testkit/certificate"
)

// proxy is between the controllers and the API server. It answers in the place of the API server, loses or
// delays answers and events, and breaks connections, as its faults say.
type proxy struct {
	server  *http.Server
	config  *rest.Config // of clients
	forward *httputil.ReverseProxy
	current atomic.Pointer[faults]
	// requests counts those that are not watches.
	requests atomic.Int64

	mu          sync.Mutex
	connections map[*breakableConn]struct{} // those that clients have open
}

// startProxy starts a proxy of the API server of a configuration, whose rights its clients have.
func startProxy(of *rest.Config) (*proxy, error) {
	target, err := url.Parse(of.Host)
	if err != nil {
		return nil, err
	}
	authority, err := certificate.NewAuthority()
	if err != nil {
		return nil, err
	}
	certPEM, keyPEM, err := authority.Issue("127.0.0.1")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(of)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{connections: map[*breakableConn]struct{}{}}
	p.current.Store(newFaults(0))
	p.config = &rest.Config{
		Host: "https://" + listener.Addr().String(), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: authority.PEM},
	}
	silent := log.New(io.Discard, "", 0)
	p.forward = &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:      transport,
		FlushInterval:  -1,
		ErrorLog:       silent,
		ModifyResponse: func(answer *http.Response) error { return faultsOf(answer.Request).spoil(answer) },
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = &http.Server{
		Handler: p, ErrorLog: silent, ReadHeaderTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = p.server.ServeTLS(&breakableListener{listener, p}, "", "") }() // it ends with the server
	return p, nil
}

// close ends the proxy and all its connections.
func (p *proxy) close() error { return p.server.Close() }

// setFaults replaces the faults, and ends the delays of the former ones.
func (p *proxy) setFaults(f *faults) {
	close(p.current.Swap(f).over)
	if f.freezes {
		p.mu.Lock()
		defer p.mu.Unlock()
		for c := range p.connections {
			c.freeze()
		}
	}
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !isWatch(r) {
		p.requests.Add(1)
	}
	f := p.current.Load()
	r, ok := f.before(w, withFaults(r, f))
	if ok {
		p.forward.ServeHTTP(w, r)
	}
}

// breakableListener accepts connections that can be frozen.
type breakableListener struct {
	net.Listener
	proxy *proxy
}

func (l *breakableListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	wrapped := &breakableConn{Conn: c, proxy: l.proxy, frozen: make(chan struct{}), ended: make(chan struct{})}
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.proxy.connections[wrapped] = struct{}{}
	return wrapped, nil
}

// breakableConn is a connection of a client. A frozen one is open and transports nothing, like that to a machine that
// is gone.
type breakableConn struct {
	net.Conn
	proxy            *proxy
	ending, freezing sync.Once
	frozen, ended    chan struct{} // ended once this or the other side has closed it
}

func (c *breakableConn) freeze() { c.freezing.Do(func() { close(c.frozen) }) }

func (c *breakableConn) isFrozen() bool {
	select {
	case <-c.frozen:
		return true
	default:
		return false
	}
}

// Read loses what arrives on a frozen connection, and returns its end.
func (c *breakableConn) Read(b []byte) (n int, err error) {
	n, err = c.Conn.Read(b)
	for err == nil && c.isFrozen() {
		n = 0
		_, err = c.Conn.Read(b)
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.end()
	}
	return n, err
}

func (c *breakableConn) end() { c.ending.Do(func() { close(c.ended) }) }

// Write waits for the end of a frozen connection.
func (c *breakableConn) Write(b []byte) (int, error) {
	if c.isFrozen() {
		<-c.ended
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func (c *breakableConn) Close() error {
	c.end()
	c.proxy.mu.Lock()
	delete(c.proxy.connections, c)
	c.proxy.mu.Unlock()
	return c.Conn.Close()
}
