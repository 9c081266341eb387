// Package testkit gives tests a real API server, unique names on it, and a client that waits.
package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/espalier-dev/espalier/internal/kube/embedded"
)

const (
	// sharedVariable names the kubeconfig of a server that all packages of a test run share.
	sharedVariable = "ESPALIER_TEST_KUBECONFIG"
	// throwawayVariable is set if this server is discarded after the run.
	throwawayVariable = "ESPALIER_TEST_THROWAWAY"

	startLimit = 2 * time.Minute
	stopLimit  = 20 * time.Second
)

// server is the API server of this test binary.
var server struct {
	managed bool // Main runs, and stops the server
	shared  bool // other packages use the server, too
	once    sync.Once
	config  *rest.Config
	err     error
	stop    func() error

	// transport is shared by all clients of config. The reference keeps it in client-go's
	// cache, which otherwise drops it between the clients of two tests, with connections
	// that cannot be closed any more. Main closes the connections, since a server that
	// outlives the tests does not, and checks for leaked goroutines would find them.
	transport http.RoundTripper
}

// Main runs the tests of a package and then stops the server that they started, if any. It is
// the whole TestMain of a package that uses Server:
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
//
// It returns the exit code, which the testing package also records itself.
func Main(m *testing.M) int {
	server.managed = true
	code := m.Run()
	for _, f := range atExit {
		f()
	}
	utilnet.CloseIdleConnectionsFor(server.transport)
	if server.stop != nil {
		if err := server.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "testkit: the API server did not stop cleanly:", err)
		}
	}
	return code
}

// isThrowaway reports whether the server is discarded after the tests, so that they need not
// clean up.
func isThrowaway() bool { return server.stop != nil || os.Getenv(throwawayVariable) != "" }

var atExit []func()

// AtExit registers a function that Main calls after the tests and before it stops the
// server. Only TestMain calls it.
func AtExit(f func()) { atExit = append(atExit, f) }

// Server returns an administrator's configuration of a real API server, without client-side
// throttling. All tests of a binary get the same server, so each uses its own Namespace and
// Group. The first call starts it; with ESPALIER_TEST_KUBECONFIG set, it is that file's server
// instead, which several packages share. The test fails if the server's program is not built.
func Server(tb testing.TB) *rest.Config {
	tb.Helper()
	return startOnce(tb, connect)
}

// ExclusiveServer is Server for packages that run controllers: controllers serve a whole API
// server, so two sets cannot share one. The server is always this binary's own.
func ExclusiveServer(tb testing.TB) *rest.Config {
	tb.Helper()
	config := startOnce(tb, startManaged)
	if server.shared {
		tb.Fatal("testkit.ExclusiveServer: another test of this package uses testkit.Server, which other packages share")
	}
	return config
}

// NeedsServer skips the test under -short: `make unit` runs only tests without a server.
func NeedsServer(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("needs a server; run it without -short")
	}
}

// startOnce returns the server of this binary; the first call gets it from connect.
func startOnce(tb testing.TB, connect func() (*rest.Config, error)) *rest.Config {
	tb.Helper()
	NeedsServer(tb)
	server.once.Do(func() {
		if server.config, server.err = connect(); server.err == nil {
			server.transport, server.err = rest.TransportFor(server.config)
		}
	})
	if server.err != nil {
		tb.Fatal(server.err)
	}
	return rest.CopyConfig(server.config)
}

func connect() (*rest.Config, error) {
	if kubeconfig := os.Getenv(sharedVariable); kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sharedVariable, err)
		}
		config.QPS = -1
		server.shared = true
		return config, nil
	}
	return startManaged()
}

// startManaged starts a server that Main stops.
func startManaged() (*rest.Config, error) {
	if !server.managed {
		return nil, errors.New("testkit.Server needs `func TestMain(m *testing.M) { testkit.Main(m) }` in this package, " +
			"which stops the server after the tests")
	}
	var err error
	var config *rest.Config
	config, server.stop, err = start()
	return config, err
}

// AnotherServer starts a second server, for tests that move objects from one to the other, and
// stops it at the end of the test.
func AnotherServer(tb testing.TB) *rest.Config {
	tb.Helper()
	NeedsServer(tb)
	config, stop, err := start()
	if err != nil {
		tb.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		utilnet.CloseIdleConnectionsFor(transport)
		if err := stop(); err != nil {
			tb.Errorf("the second API server did not stop cleanly: %v", err)
		}
	})
	return config
}

// start starts a server with data in a temporary directory, without fsync. Stop also removes
// the directory.
func start() (config *rest.Config, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "espalier-test-")
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	plane, err := embedded.Start(ctx, embedded.Options{DataDir: filepath.Join(dir, "data"), NoFsync: true})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return plane.Config(), func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
		defer cancel()
		return errors.Join(plane.Stop(ctx), os.RemoveAll(dir))
	}, nil
}

// ClientCA returns a file with the certificate authority of the server's client certificates. The
// server presents one with the common name embedded.WebhookClientName to admission webhooks.
func ClientCA(tb testing.TB, config *rest.Config) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "ca.crt")
	if err := os.WriteFile(file, config.CAData, 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}
