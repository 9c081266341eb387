package webhook

import (
	"net"
	"sync"
)

// limitedListener accepts no more than a number of connections that are open at the same time:
// others wait in the backlog of the operating system, and take no file descriptors that the
// controllers need.
type limitedListener struct {
	net.Listener
	free   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func limitConnections(l net.Listener, limit int) net.Listener {
	return &limitedListener{Listener: l, free: make(chan struct{}, limit), closed: make(chan struct{})}
}

// Accept waits until fewer connections than the limit are open.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err
	}
	return &limitedConn{Conn: c, release: sync.OnceFunc(func() { <-l.free })}, nil
}

// Close ends Accept.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitedConn struct {
	net.Conn
	release func()
}

// Close lets another connection be accepted.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.release()
	return err
}
