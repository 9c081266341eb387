// Package plane runs a Kubernetes control plane in this process.
// See docs/design/0015-modules-packages-and-the-embedded-server.md.
package plane

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/espalier-dev/espalier/controlplane/internal/pki"
)

// Options configure a control plane.
type Options struct {
	// DataDir contains everything that survives the process. Required.
	DataDir string
	// Kubeconfig is the file that the administrator's credentials are written to.
	// Empty means "kubeconfig" in DataDir.
	Kubeconfig string
	// LogFile is what the components log to. Empty means "controlplane.log" in DataDir.
	LogFile string
	// Port on 127.0.0.1. Zero is the port of the previous start if it is free, and otherwise any.
	Port int
	// Waiting is called with a message if another process uses DataDir, and Run waits for its end. Nil drops it.
	Waiting func(message string)
	// Fsync makes every write durable before the response.
	Fsync bool
}

// Run serves until ctx ends, and returns nil then. It calls ready once, as soon as the API is
// served and its first namespaces exist. Only one process may use a data directory, and a
// process may call Run once: after an error, what it has started runs until the process ends.
func Run(ctx context.Context, o Options, ready func(url string)) error {
	waiting := o.Waiting
	if waiting == nil {
		waiting = func(string) {}
	}
	home, err := openHome(ctx, o.DataDir, waiting)
	if err != nil {
		return err
	}
	defer home.close()
	restore, err := logTo(home.or(o.LogFile, "controlplane.log"))
	if err != nil {
		return err
	}
	defer restore()

	tuneGarbageCollection()
	listener, err := listen(home.file("port"), o.Port)
	if err != nil {
		return err
	}
	keys, err := pki.LoadOrCreate(home.file("pki"), time.Now())
	if err != nil {
		return err
	}
	admin, err := writeKubeconfig(home.or(o.Kubeconfig, "kubeconfig"), listener.Addr(), keys)
	if err != nil {
		return err
	}

	store, api, err := startServers(home, o.Fsync, keys, listener)
	if err != nil {
		return err
	}
	// An API server that is stopped during its start exits with a fatal error. So until it is ready,
	// neither is stopped: they end with the process, or are killed, which etcd survives like any crash.
	if err := waitReady(ctx, admin, api.ended); err != nil {
		api.kill()
		store.kill()
		return unlessDone(ctx, err)
	}
	// They stop in the reverse order, since each depends on those that started before.
	defer store.stop()
	defer api.stop()
	controllers, err := startControllers(admin)
	if err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	defer controllers.stop()

	ready(admin.Host)
	select {
	case <-ctx.Done():
		return nil
	case err := <-store.ended:
		return fmt.Errorf("etcd exited: %w", err)
	case err := <-api.ended:
		return fmt.Errorf("the API server exited: %w", err)
	}
}

// drain is how long a component may take to stop.
const drain = 5 * time.Second

// component is a running part of the control plane.
type component struct {
	ended <-chan error // delivers why it has ended by itself
	stop  func()       // ends it, and returns when it has ended
	kill  func()       // ends it at once if it is another process, and does nothing otherwise
}

// startServers starts etcd and the API server: in this process, or as the programs of AssetsVariable if that is set.
func startServers(h *home, fsync bool, keys pki.Set, listener net.Listener) (store, api component, err error) {
	socket, err := h.socket("etcd.sock")
	if err != nil {
		return store, api, err
	}
	authentication, err := writeAuthentication(h.file("authentication.yaml"))
	if err != nil {
		return store, api, err
	}
	admission, err := writeAdmission(h, keys)
	if err != nil {
		return store, api, err
	}
	arguments := apiFlags("unix://"+socket, authentication, admission, keys, listener.Addr())
	inProcess := os.Getenv(AssetsVariable) == ""
	if inProcess {
		store, err = startStore(h, socket, fsync)
	} else {
		store, err = runStore(h, socket, fsync)
	}
	if err != nil {
		return store, api, fmt.Errorf("etcd: %w", err)
	}
	if inProcess {
		api, err = startAPI(arguments, listener)
	} else {
		api, err = runAPI(h, arguments, listener)
	}
	if err != nil {
		store.kill()
		return store, api, fmt.Errorf("API server: %w", err)
	}
	return store, api, nil
}

// unlessDone drops an error if ctx has ended: an interrupt is not a failure, also before the
// control plane is ready.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
