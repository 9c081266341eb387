package embedded

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"

	"k8s.io/client-go/rest"
)

// ControlPlane is a running child.
type ControlPlane struct {
	kubeconfig string
	config     *rest.Config
	cmd        *exec.Cmd
	stdin      io.Closer     // held, since the child stops when it closes
	done       chan struct{} // closed when the child has been waited for
	err        error         // how it ended, once done is closed
}

// Kubeconfig is the file with the administrator's credentials.
func (c *ControlPlane) Kubeconfig() string { return c.kubeconfig }

// Config returns a copy of the administrator's configuration, without client-side throttling.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// PID is the child's process id.
func (c *ControlPlane) PID() int { return c.cmd.Process.Pid }

// Done is closed when the child is gone, whoever ended it.
func (c *ControlPlane) Done() <-chan struct{} { return c.done }

// Stop asks the child to end and waits. When ctx ends first, the child is killed; what it had
// answered is kept all the same, unless NoFsync was set and the machine fails. Stop returns with
// the child gone. It may be called again, and at the same time; a child that ended by itself
// before is reported by every call.
func (c *ControlPlane) Stop(ctx context.Context) error {
	// The child may be gone already; then there is nobody to tell, and done says so.
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return errors.Join(err, c.kill())
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), c.kill())
	}
}

// kill ends the child at once and waits for it.
func (c *ControlPlane) kill() error {
	err := c.cmd.Process.Kill()
	<-c.done
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
