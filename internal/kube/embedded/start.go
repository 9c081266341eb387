package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options say which program to run and where its data live.
type Options struct {
	// Program is the path of the control plane program. Empty means what Find finds.
	Program string
	// DataDir holds all that the control plane keeps, and is made if need be. Started again on
	// it, the control plane has the same objects and, where it is free, the same port. Required.
	DataDir string
	// Kubeconfig is the file to write the administrator's credentials to. Empty means
	// "kubeconfig" in DataDir.
	Kubeconfig string
	// Port on 127.0.0.1. Zero means the previous one if it is free, else any.
	Port int
	// NoFsync answers writes before they are durable. For tests.
	NoFsync bool
	// Log takes what the child prints on its standard error; its own log is a file in DataDir.
	// Nil means nowhere.
	Log io.Writer
}

var errEnded = errors.New("it ended before it was ready")

// Start runs a control plane and returns when it is ready. If it does not come to that, the child
// is gone when Start returns, and the error holds the end of what it logged. Once started, it
// lives until Stop, or as long as this process; ctx bounds the start only.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	cmd, err := o.command()
	if err != nil {
		return nil, err
	}
	tail := &tail{next: o.Log}
	cmd.Stderr = tail
	stdin, err := cmd.StdinPipe() // the child stops when this end closes, which a dead parent's does
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &ControlPlane{kubeconfig: o.kubeconfig(), cmd: cmd, stdin: stdin, done: make(chan struct{})}
	ready := make(chan bool, 1)
	go func() {
		ready <- announced(stdout)
		_, _ = io.Copy(io.Discard, stdout) // nothing more is expected
		c.err = cmd.Wait()
		close(c.done)
	}()

	select {
	case ok := <-ready:
		if !ok {
			<-c.done
			return nil, o.failure(errEnded, tail)
		}
	case <-ctx.Done():
		_ = c.kill() // it holds nothing yet that would be worth a clean end
		return nil, o.failure(context.Cause(ctx), tail)
	}
	if c.config, err = load(c.kubeconfig); err != nil {
		_ = c.kill()
		return nil, err
	}
	return c, nil
}

func (o Options) command() (*exec.Cmd, error) {
	if o.DataDir == "" {
		return nil, errors.New("control plane: a data directory is required")
	}
	path := o.Program
	if path == "" {
		found, err := Find()
		if err != nil {
			return nil, err
		}
		path = found
	}
	cmd := exec.Command(path,
		"--data-dir="+o.DataDir,
		"--write-kubeconfig="+o.kubeconfig(),
		"--port="+strconv.Itoa(o.Port),
		"--fsync="+strconv.FormatBool(!o.NoFsync),
		"--parent-watch",
	)
	cmd.SysProcAttr = apart()
	return cmd, nil
}

func (o Options) kubeconfig() string {
	if o.Kubeconfig != "" {
		return o.Kubeconfig
	}
	return filepath.Join(o.DataDir, "kubeconfig")
}

// failure explains why the control plane did not start. A child that ended has said why on its
// standard error; of one that is slow, only its log can tell what it waits for.
func (o Options) failure(err error, said *tail) error {
	detail := said.String()
	if detail == "" || !errors.Is(err, errEnded) {
		detail += "\n" + lastLines(filepath.Join(o.DataDir, "controlplane.log"))
	}
	return fmt.Errorf("control plane in %s: %w\n%s", o.DataDir, err, strings.TrimSpace(detail))
}

// announced reports whether the child said that it is ready, before it closed its output.
func announced(stdout io.Reader) bool {
	line, err := bufio.NewReader(stdout).ReadString('\n')
	return err == nil && strings.HasPrefix(line, "ready ")
}

// load reads a configuration without a client-side limit: the API server has its own fairness.
func load(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}
