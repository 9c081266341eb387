// Package plane runs a Kubernetes control plane in this process.
package plane

import (
	"context"
	"fmt"
	"time"

	"github.com/espalier-dev/espalier/controlplane/internal/pki"
)

// Options say where a control plane keeps its data and how it is reached.
type Options struct {
	// DataDir holds everything that outlives the process. Required.
	DataDir string
	// Kubeconfig is the file that the administrator's credentials are written to.
	// Empty means "kubeconfig" in DataDir.
	Kubeconfig string
	// LogFile is what the components log to. Empty means "controlplane.log" in DataDir.
	LogFile string
	// Port on 127.0.0.1. Zero takes the port of the previous start if it is free, else any.
	Port int
	// Fsync makes every write durable before it is answered.
	Fsync bool
}

// Run serves until ctx ends, and returns nil then. It calls ready once, as soon as the API is
// served and its first namespaces exist. One process at a time may run on a data directory, and
// runs once: when Run fails, what it had started goes on until the process ends.
func Run(ctx context.Context, o Options, ready func(url string)) error {
	home, err := openHome(o.DataDir)
	if err != nil {
		return err
	}
	defer home.close()
	restore, err := logTo(home.or(o.LogFile, "controlplane.log"))
	if err != nil {
		return err
	}
	defer restore()

	listener, err := listen(home.file("port"), o.Port)
	if err != nil {
		return err
	}
	keys, err := pki.Keep(home.file("pki"), time.Now())
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
	// An API server that is told to stop while it starts calls that fatal. So until it is ready both
	// are left to the end of the process, which etcd survives as it does any crash.
	if err := waitReady(ctx, admin, api); err != nil {
		return unlessDone(ctx, err)
	}
	// What started later needs what started before, so they stop in the opposite order.
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
		return fmt.Errorf("etcd ended: %w", err)
	case <-api.done:
		return fmt.Errorf("the API server ended: %w", api.err)
	}
}

// unlessDone forgets an error that only says that ctx ended: to be stopped is not a failure, not
// even before being ready.
func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
