package webhook

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
)

// limitedListener keeps no more than a number of connections open at the same time, so they do not take the file descriptors
// that the controllers need. A connection beyond that takes the place of another one: otherwise any client that reaches the
// port could keep the API server out, by connections that wait. It is safe for concurrent use.
type limitedListener struct {
	net.Listener
	limit int

	mu   sync.Mutex
	open []*limitedConn // in the order in which they entered their state
}

func limitConnections(l net.Listener, limit int) *limitedListener {
	return &limitedListener{Listener: l, limit: limit}
}

// limitedConn is an open connection. The listener's lock guards its state.
type limitedConn struct {
	net.Conn
	listener *limitedListener
	host     string
	state    http.ConnState
}

// Accept closes a connection that is open if there are as many as the limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	added := &limitedConn{Conn: c, listener: l, host: hostOf(c.RemoteAddr()), state: http.StateNew}
	if displaced := l.add(added); displaced != nil {
		_ = displaced.Close()
	}
	return added, nil
}

// add returns the connection that c displaces; nil if there is room.
func (l *limitedListener) add(c *limitedConn) (displaced *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) >= l.limit {
		displaced = leastNeeded(l.open)
	}
	l.open = append(l.open, c)
	return displaced
}

// leastNeeded chooses the connection to close, of all in the order in which they entered their state. It belongs to
// the host with most connections, and of these it is one that has not sent a request yet, or else one without a
// request in progress, for the longest time.
func leastNeeded(open []*limitedConn) *limitedConn {
	byHost := map[string]int{}
	for _, c := range open {
		byHost[c.host]++
	}
	return slices.MaxFunc(open, func(a, b *limitedConn) int {
		return cmp.Or(cmp.Compare(byHost[a.host], byHost[b.host]), cmp.Compare(idleness(a.state), idleness(b.state)))
	})
}

// idleness is larger for a less needed connection.
func idleness(s http.ConnState) int {
	switch s {
	case http.StateNew:
		return 2
	case http.StateIdle:
		return 1
	default:
		return 0
	}
}

func (l *limitedListener) recordState(c net.Conn, s http.ConnState) {
	if encrypted, is := c.(*tls.Conn); is {
		c = encrypted.NetConn()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.IndexFunc(l.open, func(o *limitedConn) bool { return net.Conn(o) == c }); i >= 0 {
		known := l.open[i]
		known.state = s
		l.open = append(slices.Delete(l.open, i, i+1), known)
	}
}

// Close makes room for another connection.
func (c *limitedConn) Close() error {
	l := c.listener
	l.mu.Lock()
	l.open = slices.DeleteFunc(l.open, func(o *limitedConn) bool { return o == c })
	l.mu.Unlock()
	return c.Conn.Close()
}

func hostOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
