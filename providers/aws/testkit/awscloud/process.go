package awscloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// startLimit is how long the implementation may take until it answers; it takes about a second.
	startLimit = time.Minute
	stopLimit  = 10 * time.Second
	// installLimit bounds the installation, which downloads about 20 MB.
	installLimit = 5 * time.Minute
)

// watchdog starts a program and ends it when the standard input is closed: also when the tests are killed.
const watchdog = `exec 3<&0; "$0" </dev/null 3<&- & pid=$!; { cat <&3 >/dev/null; kill "$pid" 2>/dev/null; } & wait "$pid"`

// process is the running implementation.
type process struct {
	url     string
	command *exec.Cmd
	stdin   io.Closer
	output  *output
	exited  chan struct{}
	// folder has the process's temporary files.
	folder string
}

// output has the last of what the implementation wrote.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const outputLimit = 1 << 20

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buf.Len() > outputLimit {
		o.buf.Next(o.buf.Len() - outputLimit/2)
	}
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// install returns the path of the implementation's program, and installs it first if it is not there.
func install(ctx context.Context) (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		script := filepath.Join(folder, "hack", "testcloud.sh")
		if _, err := os.Stat(script); err == nil {
			return runScript(ctx, script)
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("find hack/testcloud.sh, which installs the test cloud: the working directory is not in a checkout of Espalier; set Options.Program")
		}
		folder = parent
	}
}

func runScript(ctx context.Context, script string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	command := exec.CommandContext(ctx, script)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("run %s to install the test cloud: %w: %s", script, err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// startProcess starts the implementation on a free port of the loopback interface, and waits until it answers.
func startProcess(ctx context.Context, program string) (*process, error) {
	var err error
	// Another process may take the port between the two steps.
	for range 3 {
		var p *process
		if p, err = tryStart(ctx, program); err == nil {
			return p, nil
		}
	}
	return nil, err
}

func tryStart(ctx context.Context, program string) (*process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := listener.Addr().(*net.TCPAddr)
	listener.Close()

	p := &process{url: "http://" + address.String(), output: &output{}, exited: make(chan struct{})}
	if p.folder, err = os.MkdirTemp("", "espalier-testcloud-"); err != nil {
		return nil, err
	}
	p.command = exec.Command("sh", "-c", watchdog, program)
	p.command.Env = append(os.Environ(), "BIND_HOST=127.0.0.1", "MINISTACK_HOST=127.0.0.1", fmt.Sprint(
		"GATEWAY_PORT=", address.Port),
		"LOG_LEVEL=WARNING", "IOT_MTLS_ENABLED=0", "TMPDIR="+p.folder, "STATE_DIR="+p.folder, "HOME="+p.folder)
	p.command.Stdout, p.command.Stderr = p.output, p.output
	// The output's pipe is also held by the watchdog's processes.
	p.command.WaitDelay = stopLimit
	if p.stdin, err = p.command.StdinPipe(); err != nil {
		os.RemoveAll(p.folder)
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		os.RemoveAll(p.folder)
		return nil, fmt.Errorf("start the test cloud %s: %w", program, err)
	}
	go func() {
		_ = p.command.Wait() // The output says why it ended.
		close(p.exited)
	}()
	if err := p.awaitReady(ctx); err != nil {
		p.stop()
		return nil, fmt.Errorf("start the test cloud %s: %w; its output:\n%s", program, err, p.output)
	}
	return p, nil
}

func (p *process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	// No proxy, and no connection that outlives the test.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/_ministack/health", nil)
		if err != nil {
			return err
		}
		if response, err := client.Do(request); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-p.exited:
			return errors.New("it ended")
		case <-ctx.Done():
			return fmt.Errorf("wait until it answers: %w", ctx.Err())
		case <-poll.C:
		}
	}
}

// stop ends the implementation and waits until it has ended.
func (p *process) stop() {
	p.stdin.Close()
	select {
	case <-p.exited:
	case <-time.After(stopLimit):
		_ = p.command.Process.Kill() // It may have ended meanwhile.
	}
	os.RemoveAll(p.folder)
}
