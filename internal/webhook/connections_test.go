package webhook

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
)

// pipes is a listener to which a test connects.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return nil }

func TestNoMoreConnectionsAreAcceptedThanTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		incoming := make(pipes, 3)
		for range 3 {
			_, server := net.Pipe()
			incoming <- server
		}
		l := limitConnections(incoming, 2)
		accepted := make(chan net.Conn, 3)
		ended := make(chan error, 1)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					ended <- err
					return
				}
				accepted <- c
			}
		}()
		synctest.Wait()
		if len(accepted) != 2 {
			t.Fatalf("%d are accepted", len(accepted))
		}
		first := <-accepted
		for range 2 { // the second has nothing to release
			_ = first.Close()
		}
		synctest.Wait()
		if len(accepted) != 2 {
			t.Errorf("%d are open after one was closed", len(accepted))
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}
