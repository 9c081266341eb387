// Package testkit holds what tests share: a real API server, and names that do not clash on it.
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
	// sharedVariable names the kubeconfig of a server that all packages of a test run use.
	sharedVariable = "ESPALIER_TEST_KUBECONFIG"
	// throwawayVariable says that this server is stopped after the run, with all that is on it.
	throwawayVariable = "ESPALIER_TEST_THROWAWAY"

	startLimit = 2 * time.Minute
	stopLimit  = 20 * time.Second
)

// server is the one of this test binary.
var server struct {
	managed bool // Main runs, and will stop it
	shared  bool // other packages use it, too
	once    sync.Once
	config  *rest.Config
	err     error
	stop    func() error

	// transport is what all clients of config share. It is held so that they do: client-go forgets
	// it between the clients of two tests otherwise, with connections that nobody can close then.
	// Main closes them, since a server that lives on does not, and who looks for left-over
	// goroutines would find theirs.
	transport http.RoundTripper
}

// Main runs the tests of a package and then removes the server that they started, if any. It is
// the whole TestMain of a package that uses Server:
//
//	func TestMain(m *testing.M) { testkit.Main(m) }
//
// The exit code is returned for those who have more to do; the testing package knows it anyway.
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

// throwaway says that nobody has to clean up the server of this binary.
func throwaway() bool { return server.stop != nil || os.Getenv(throwawayVariable) != "" }

var atExit []func()

// AtExit registers what to do after the tests and before the server is stopped.
// It is for what all tests of a binary share, and is called from TestMain only.
func AtExit(f func()) { atExit = append(atExit, f) }

// Server returns the configuration of a real API server, as administrator and without throttling.
// All tests of a binary get the same server, so each works in its own Namespace and Group. It is
// started by the first who asks; with ESPALIER_TEST_KUBECONFIG set, that file's server is used
// instead, and several packages share it. The program is not built here: where it is missing, the
// test fails and says how to build it.
func Server(tb testing.TB) *rest.Config {
	tb.Helper()
	return only(tb, connect)
}

// Exclusive is Server for packages that run controllers: these serve a whole API
// server, so that two sets of them can't share one. The server is always this
// binary's own.
func Exclusive(tb testing.TB) *rest.Config {
	tb.Helper()
	config := only(tb, own)
	if server.shared {
		tb.Fatal("testkit.Exclusive: another test of this package uses testkit.Server, which other packages use, too")
	}
	return config
}

// NeedsServer skips the test under -short, by which `make unit` runs what needs no server.
func NeedsServer(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("needs a server; run it without -short")
	}
}

// only returns the server of this binary, which connect provides where nobody has asked before.
func only(tb testing.TB, connect func() (*rest.Config, error)) *rest.Config {
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
	return own()
}

func own() (*rest.Config, error) {
	if !server.managed {
		return nil, errors.New("testkit.Server needs `func TestMain(m *testing.M) { testkit.Main(m) }` in this package, " +
			"which stops the server after the tests")
	}
	var err error
	var config *rest.Config
	config, server.stop, err = start()
	return config, err
}

// Another returns a further server of this binary's own, for what moves from one to the other. It
// is stopped at the end of the test that asks.
func Another(tb testing.TB) *rest.Config {
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

// start runs a server whose data are in a temporary directory and are never made durable.
func start() (config *rest.Config, end func() error, err error) {
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
