package postgresql

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestDenyLocalRefusesConnectionsToThisMachine listens like a server on this machine, which might
// require no password from local clients, and expects no connection.
func TestDenyLocalRefusesConnectionsToThisMachine(t *testing.T) {
	dir := t.TempDir()
	socket := listen(t, "unix", filepath.Join(dir, ".s.PGSQL.5432"))
	four := listen(t, "tcp4", "127.0.0.1:0")
	port := uint16(four.Addr().(*net.TCPAddr).Port)
	cases := map[string]server{
		"a socket":                 {Host: dir, Port: 5432},
		"loopback":                 {Host: "127.0.0.1", Port: port},
		"another loopback address": {Host: "127.1.2.3", Port: port},
		"a name":                   {Host: "localhost", Port: port},
		"the unspecified address":  {Host: "0.0.0.0", Port: port},
		"IPv4 in IPv6":             {Host: "::ffff:127.0.0.1", Port: port},
		"link-local, as metadata services of clouds": {Host: "169.254.169.254", Port: port},
	}
	for name, s := range cases {
		t.Run(name, func(t *testing.T) {
			s.User, s.TLS, s.Timeout, s.DenyLocal = "u", "disable", time.Second, true
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if _, err := s.dial(ctx, "d"); err == nil || !strings.Contains(err.Error(), "a ProviderConfig cannot refer to a server on the machine") {
				t.Errorf("want a refusal, got %v", err)
			}
		})
	}
	for _, l := range []*recordingListener{socket, four} {
		if l.wasConnected() {
			t.Errorf("%s was connected to", l.Addr())
		}
	}
	if err := denyLocal("tcp6", "[::1]:5432", nil); err == nil {
		t.Error("loopback of IPv6 is allowed")
	}
	t.Log("without DenyLocal, it connects")
	s := server{Host: "127.0.0.1", Port: port, User: "u", TLS: "disable", Timeout: time.Second}
	if _, err := s.dial(t.Context(), "d"); err == nil || !four.wasConnected() {
		t.Errorf("want a connection that is then closed, got %v", err)
	}
}

func TestOnlyProviderConfigsAreDeniedLocalServers(t *testing.T) {
	objects := fakeObjects{
		"ProviderConfig team/mine":       spec(map[string]any{"host": "h", "credentials": map[string]any{"secretRef": map[string]any{"name": "login"}}}),
		"ClusterProviderConfig /default": spec(map[string]any{"host": "h", "credentials": map[string]any{"secretRef": map[string]any{"name": "login", "namespace": "team"}}}),
		"Secret team/login":              secretData("username", "admin"),
	}
	mine := &resource.ProviderConfigReference{Kind: "ProviderConfig", Name: "mine"}
	cases := map[string]struct {
		options Options
		ref     *resource.ProviderConfigReference
		denied  bool
	}{
		"a ProviderConfig":                   {ref: mine, denied: true},
		"a ProviderConfig with LocalServers": {ref: mine, options: Options{LocalServers: true}},
		"a ClusterProviderConfig":            {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, _, err := tc.options.readServer(objects, role("team"), tc.ref)
			if err != nil || s.DenyLocal != tc.denied {
				t.Errorf("got %v, %v", s.DenyLocal, err)
			}
		})
	}
}

// TestScopesOfNamespacesDiffer: otherwise a tenant could reserve names on the server of another
// tenant.
func TestScopesOfNamespacesDiffer(t *testing.T) {
	cluster := server{Host: "db.example", Port: 5432}
	mine, yours := cluster, cluster
	mine.Namespace, yours.Namespace = "mine", "yours"
	seen := map[string]string{}
	for name, s := range map[string]server{"the cluster's": cluster, "mine": mine, "yours": yours} {
		for _, scope := range []string{s.scope(), s.databaseScope("shop")} {
			if other, there := seen[scope]; there {
				t.Errorf("%s and %s both have the scope %s", name, other, scope)
			}
			seen[scope] = name
		}
	}
	if cluster.scope() != "db.example:5432" || mine.databaseScope("shop") != "mine/db.example:5432/shop" {
		t.Errorf("got %s and %s", cluster.scope(), mine.databaseScope("shop"))
	}
}

// recordingListener is a listener that records its connections.
type recordingListener struct {
	net.Listener
	connections chan struct{}
}

func listen(t *testing.T, network, address string) *recordingListener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	k := &recordingListener{l, make(chan struct{}, 100)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			k.connections <- struct{}{}
			conn.Close()
		}
	}()
	return k
}

// wasConnected reports whether a client has connected. A connection is recorded before it is
// closed.
func (k *recordingListener) wasConnected() bool {
	select {
	case <-k.connections:
		return true
	default:
		return false
	}
}
