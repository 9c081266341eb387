package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options configure the control plane.
type Options struct {
	// Program is the path of the control plane program. Empty means the result of Find.
	Program string
	// DataDir holds all data of the control plane. It is created if needed. Started again
	// on it, the control plane has the same objects and, if it is free, the same port.
	// Required.
	DataDir string
	// Kubeconfig is the file that the administrator's credentials are written to. Empty
	// means "kubeconfig" in DataDir.
	Kubeconfig string
	// Port on 127.0.0.1. Zero means the previous one if it is free, otherwise any.
	Port int
	// NoFsync acknowledges writes before they are durable. For tests.
	NoFsync bool
	// Log receives what the child says about a wait before it is ready, and then its standard error. If it does not become
	// ready, the error of Start has that instead. Its own log is a file in DataDir. Nil discards all.
	Log io.Writer
}

var errExited = errors.New("the process ended before it was ready")

// Start runs a control plane and returns when it is ready. If it does not become ready, the
// child has ended when Start returns, and the error contains the end of its log. A started
// control plane runs until Stop, or until this process ends; ctx bounds the start only.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	cmd, err := o.command()
	if err != nil {
		return nil, err
	}
	tail := &tail{next: o.Log}
	cmd.Stderr = tail
	stdin, err := cmd.StdinPipe() // the child stops when this end closes, also when this process dies
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	logged := logSize(o.DataDir)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &ControlPlane{
		kubeconfig: o.kubeconfig(), clientCA: filepath.Join(o.DataDir, "pki", "ca.crt"), cmd: cmd, stdin: stdin, done: make(chan struct{}),
		explain: func() string { return explain(o.DataDir, tail.String(), logged) },
	}
	ready := make(chan bool, 1)
	go func() {
		ready <- readReady(stdout, tail)
		_, _ = io.Copy(io.Discard, stdout) // no further output is expected
		c.err = cmd.Wait()
		close(c.done)
	}()

	select {
	case ok := <-ready:
		if !ok {
			<-c.done
			return nil, fmt.Errorf("control plane in %s: %s", o.DataDir, c.explain())
		}
		tail.release()
	case <-ctx.Done():
		_ = c.kill()                                                                             // it has no data yet that would need a clean stop
		said := tail.String() + "\n" + lastLines(readEnd(logFile(o.DataDir), logged, tailBytes)) // only its log says what it waits for
		return nil, fmt.Errorf("control plane in %s: %w\n%s", o.DataDir, context.Cause(ctx), strings.TrimSpace(said))
	}
	if c.config, err = loadConfig(c.kubeconfig); err != nil {
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
	cmd.SysProcAttr = separateProcessGroup()
	return cmd, nil
}

func (o Options) kubeconfig() string {
	if o.Kubeconfig != "" {
		return o.Kubeconfig
	}
	return filepath.Join(o.DataDir, "kubeconfig")
}

func logFile(dir string) string { return filepath.Join(dir, "controlplane.log") }

func logSize(dir string) int64 {
	info, err := os.Stat(logFile(dir))
	if err != nil {
		return 0
	}
	return info.Size()
}

// readReady reports whether the child printed that it is ready before it closed its output. What it prints before that is
// about what it waits for.
func readReady(stdout io.Reader, log *tail) bool {
	lines := bufio.NewReader(stdout)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return false
		}
		if strings.HasPrefix(line, "ready ") {
			return true
		}
		log.notify(line)
	}
}

// It leaves out client-side throttling: the API server has priority and fairness.
func loadConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return config, nil
}
