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

// TestANamespacesConfigurationDoesNotReachThisMachine listens where a server of this
// machine would, which may ask for no password of who is on it, and waits for guests.
func TestANamespacesConfigurationDoesNotReachThisMachine(t *testing.T) {
	dir := t.TempDir()
	socket := listen(t, "unix", filepath.Join(dir, ".s.PGSQL.5432"))
	four := listen(t, "tcp4", "127.0.0.1:0")
	port := uint16(four.Addr().(*net.TCPAddr).Port)
	cases := map[string]server{
		"by a socket":                      {Host: dir, Port: 5432},
		"by loopback":                      {Host: "127.0.0.1", Port: port},
		"by another address of it":         {Host: "127.1.2.3", Port: port},
		"by a name of it":                  {Host: "localhost", Port: port},
		"by the address that is anyone's":  {Host: "0.0.0.0", Port: port},
		"by IPv4 in IPv6":                  {Host: "::ffff:127.0.0.1", Port: port},
		"by a link, where clouds tell all": {Host: "169.254.169.254", Port: port},
	}
	for name, s := range cases {
		t.Run(name, func(t *testing.T) {
			s.User, s.TLS, s.Timeout, s.Away = "u", "disable", time.Second, true
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if _, err := s.dial(ctx, "d"); err == nil || !strings.Contains(err.Error(), "a ProviderConfig's server can't be on the machine") {
				t.Errorf("it is said: %v", err)
			}
		})
	}
	for _, l := range []*knocks{socket, four} {
		if l.heard() {
			t.Errorf("%s was connected to", l.Addr())
		}
	}
	if err := elsewhere("tcp6", "[::1]:5432", nil); err == nil {
		t.Error("IPv6's loopback is elsewhere")
	}
	t.Log("who is let does")
	s := server{Host: "127.0.0.1", Port: port, User: "u", TLS: "disable", Timeout: time.Second}
	if _, err := s.dial(t.Context(), "d"); err == nil || !four.heard() {
		t.Errorf("nobody came: %v", err)
	}
}

func TestWhoIsKeptFromThisMachine(t *testing.T) {
	objects := shelf{
		"ProviderConfig team/mine":       spec(map[string]any{"host": "h", "credentials": map[string]any{"secretRef": map[string]any{"name": "login"}}}),
		"ClusterProviderConfig /default": spec(map[string]any{"host": "h", "credentials": map[string]any{"secretRef": map[string]any{"name": "login", "namespace": "team"}}}),
		"Secret team/login":              holding("username", "admin"),
	}
	mine := &resource.ProviderConfigReference{Kind: "ProviderConfig", Name: "mine"}
	cases := map[string]struct {
		options Options
		ref     *resource.ProviderConfigReference
		away    bool
	}{
		"a namespace's configuration":                 {ref: mine, away: true},
		"but not where the operator has allowed it":   {ref: mine, options: Options{LocalServers: true}},
		"nor the cluster's, which the operator makes": {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := tc.options.configured(objects, "team", tc.ref)
			if err != nil || s.Away != tc.away {
				t.Errorf("it is %v, %v", s.Away, err)
			}
		})
	}
}

// TestAServerOfANamespaceIsKnownByTheNamespace is about reservations: whoever could say
// that his is another's server would keep the other from making anything there.
func TestAServerOfANamespaceIsKnownByTheNamespace(t *testing.T) {
	cluster := server{Host: "db.example", Port: 5432}
	mine, yours := cluster, cluster
	mine.Namespace, yours.Namespace = "mine", "yours"
	seen := map[string]string{}
	for name, s := range map[string]server{"the cluster's": cluster, "mine": mine, "yours": yours} {
		for _, scope := range []string{s.scope(), s.within("shop")} {
			if other, there := seen[scope]; there {
				t.Errorf("%s and %s are both %s", name, other, scope)
			}
			seen[scope] = name
		}
	}
	if cluster.scope() != "db.example:5432" || mine.within("shop") != "mine/db.example:5432/shop" {
		t.Errorf("they are %s and %s", cluster.scope(), mine.within("shop"))
	}
}

// knocks is a listener that counts who comes.
type knocks struct {
	net.Listener
	came chan struct{}
}

func listen(t *testing.T, network, address string) *knocks {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	k := &knocks{l, make(chan struct{}, 100)}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			k.came <- struct{}{}
			conn.Close()
		}
	}()
	return k
}

// heard says whether somebody has come: that is counted before he is turned away.
func (k *knocks) heard() bool {
	select {
	case <-k.came:
		return true
	default:
		return false
	}
}
