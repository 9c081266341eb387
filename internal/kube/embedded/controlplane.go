package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"k8s.io/client-go/rest"
)

// ControlPlane is a running control plane process, a child of this one.
type ControlPlane struct {
	kubeconfig string
	clientCA   string
	config     *rest.Config
	cmd        *exec.Cmd
	stdin      io.Closer     // kept open: the child stops when it closes
	done       chan struct{} // closed when the child has been waited for
	err        error         // how it ended, once done is closed
	explain    func() string // why it ended by itself
}

// Kubeconfig is the file with the administrator's credentials.
func (c *ControlPlane) Kubeconfig() string { return c.kubeconfig }

// Config returns a copy of the administrator's configuration, without client-side throttling.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// WebhookClientName is the common name of the client certificate that the API server presents to
// admission webhooks.
const WebhookClientName = "espalier-controlplane-webhooks"

// ClientCA is the file with the certificate authority of all client certificates of the control plane, also of the
// certificate for admission webhooks.
func (c *ControlPlane) ClientCA() string { return c.clientCA }

// PID is the child's process id.
func (c *ControlPlane) PID() int { return c.cmd.Process.Pid }

// Done is closed when the child has ended, for whatever reason.
func (c *ControlPlane) Done() <-chan struct{} { return c.done }

// Failure reports why the child has ended by itself, which is known once Done is closed.
func (c *ControlPlane) Failure() error {
	return fmt.Errorf("the control plane has ended: %s", c.explain())
}

// Stop asks the child to end and waits until it has. If ctx ends first, the child is
// killed; acknowledged writes are durable all the same, unless NoFsync is set and the
// machine fails. Stop may be called repeatedly and concurrently. If the child had ended by
// itself before, every call returns an error.
func (c *ControlPlane) Stop(ctx context.Context) error {
	// The child may have ended already, which is no failure to signal it.
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

// It returns once the child has ended.
func (c *ControlPlane) kill() error {
	err := c.cmd.Process.Kill()
	<-c.done
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
