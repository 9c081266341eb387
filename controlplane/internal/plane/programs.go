package plane

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// AssetsVariable names a directory with etcd and kube-apiserver, as setup-envtest of controller-runtime installs them. If it
// is set, these run instead of the servers that this program contains. They need Kubernetes 1.34 or newer.
const AssetsVariable = "KUBEBUILDER_ASSETS"

func runStore(h *home, socket string, fsync bool) (component, error) {
	arguments := []string{
		"--name=espalier", "--data-dir=" + h.file("etcd"),
		"--listen-client-urls=unix://" + socket, "--advertise-client-urls=unix://" + socket,
		"--listen-peer-urls=unix://etcd-peer.sock", // in the working directory; there are no peers
		"--initial-cluster=espalier=http://localhost:2380",
		"--log-level=warn", "--quota-backend-bytes=8589934592", "--heartbeat-interval=20", "--election-timeout=100",
	}
	if !fsync {
		arguments = append(arguments, "--unsafe-no-fsync")
	}
	return h.run("etcd", arguments)
}

// runAPI leaves the features of the server as they are: other versions have others.
func runAPI(h *home, arguments []string, listener net.Listener) (component, error) {
	if err := listener.Close(); err != nil { // it has reserved the port
		return component{}, err
	}
	return h.run("kube-apiserver", arguments)
}

// run runs a program of AssetsVariable. It inherits the lock of the data directory: if this process is killed, nobody else can
// use the directory while the program runs.
func (h *home) run(name string, arguments []string) (component, error) {
	cmd := exec.Command(filepath.Join(os.Getenv(AssetsVariable), name), arguments...)
	cmd.Dir, cmd.Stderr, cmd.Stdout = h.dir, os.Stderr, os.Stderr
	cmd.ExtraFiles = []*os.File{h.lock}
	cmd.SysProcAttr = endWithParent()
	started, ended, done := make(chan error), make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // Linux ends the program when the thread that has started it ends
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		ended <- cmp.Or(cmd.Wait(), errors.New("it stopped by itself"))
		close(done)
	}()
	if err := <-started; err != nil {
		return component{}, fmt.Errorf("%s is set, and its program does not start: %w", AssetsVariable, err)
	}
	kill := func() {
		_ = cmd.Process.Kill() // it may have ended
		<-done
	}
	stop := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(drain):
			kill() // etcd survives that like any crash
		}
	}
	return component{ended: ended, stop: stop, kill: kill}, nil
}
