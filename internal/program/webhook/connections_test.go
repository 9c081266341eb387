package webhook

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestLeastNeededConnection(t *testing.T) {
	const fresh, active, idle = http.StateNew, http.StateActive, http.StateIdle
	cases := map[string]struct {
		open []limitedConn // in the order in which they entered their state
		want int
	}{
		"of the host with most": {
			[]limitedConn{{host: "a", state: fresh}, {host: "b", state: active}, {host: "b", state: active}}, 1,
		},
		"first one without a request": {
			[]limitedConn{{host: "a", state: active}, {host: "a", state: idle}, {host: "a", state: fresh}}, 2,
		},
		"then one without a request in progress": {
			[]limitedConn{{host: "a", state: active}, {host: "a", state: idle}, {host: "a", state: active}}, 1,
		},
		"of equal ones that for the longest time": {
			[]limitedConn{{host: "a", state: idle}, {host: "a", state: fresh}, {host: "a", state: fresh}}, 1,
		},
		"the only one": {[]limitedConn{{host: "a", state: active}}, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var open []*limitedConn
			for i := range tc.open {
				open = append(open, &tc.open[i])
			}
			if got := leastNeeded(open); got != open[tc.want] {
				t.Errorf("%+v is closed", got)
			}
		})
	}
}

// TestConnectionsWithoutRequestsKeepNobodyOut has a stranger fill the server with connections on which it sends nothing.
func TestConnectionsWithoutRequestsKeepNobodyOut(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	const limit = 3
	listener := limitConnections(server.Listener, limit)
	server.Listener, server.Config.ConnState = listener, listener.recordState
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	client := server.Client()
	call := func() {
		t.Helper()
		answer, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusNoContent {
			t.Fatalf("answered %s, %v", answer.Status, err)
		}
	}
	call()
	var stranger net.Dialer
	var held []net.Conn
	for range 3 * limit {
		c, err := stranger.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
		t.Cleanup(func() { _ = c.Close() })
		call() // by the connection that is open, and by a new one:
		client.CloseIdleConnections()
		call()
	}
	if _, err := held[0].Read(make([]byte, 1)); err == nil || errors.Is(err, net.ErrClosed) {
		t.Errorf("the first connection of the stranger is open: %v", err)
	}
	listener.mu.Lock()
	defer listener.mu.Unlock()
	if len(listener.open) > limit {
		t.Errorf("%d connections are open", len(listener.open))
	}
}

func TestTheStateOfAnEncryptedConnectionIsKnown(t *testing.T) {
	l := limitConnections(nil, 2)
	first, second := &limitedConn{listener: l, state: http.StateNew}, &limitedConn{listener: l, state: http.StateNew}
	l.add(first)
	l.add(second)
	l.recordState(tls.Server(first, &tls.Config{MinVersion: tls.VersionTLS13}), http.StateIdle)
	if first.state != http.StateIdle || l.open[0] != second || l.open[1] != first {
		t.Errorf("the states are %+v", l.open)
	}
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	l.recordState(server, http.StateActive) // of another listener
	first.Conn = server
	if err := first.Close(); err != nil || len(l.open) != 1 {
		t.Errorf("after it was closed: %d open, %v", len(l.open), err)
	}
}
