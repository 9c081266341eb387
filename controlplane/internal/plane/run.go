// Package plane runs a Kubernetes control plane in this process.
// See docs/design/0015-modules-packages-and-the-embedded-server.md.
package plane

import (
	"context"
	"fmt"
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

	store, err := startStore(home, o.Fsync)
	if err != nil {
		return fmt.Errorf("etcd: %w", err)
	}
	api, err := startAPI(home, store, keys, listener)
	if err != nil {
		return fmt.Errorf("API server: %w", err)
	}
	// An API server that is stopped during its start exits with a fatal error. So until it is ready,
	// neither is stopped: they end with the process, which etcd survives like any crash.
	if err := waitReady(ctx, admin, api); err != nil {
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
	case err := <-store.failed():
		return fmt.Errorf("etcd exited: %w", err)
	case <-api.done:
		return fmt.Errorf("the API server exited: %w", api.err)
	}
}

// unlessDone drops an error if ctx has ended: an interrupt is not a failure, also before the
// control plane is ready.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
