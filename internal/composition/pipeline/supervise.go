package pipeline

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

type process struct {
	name    string
	command Command
	options ProcessOptions
	cancel  context.CancelFunc
	stopped chan struct{} // closed when supervise has returned

	mu        sync.Mutex
	address   string           // where it accepts connections, or ""
	failure   *NotRunningError // the last exit, until the program is restarted
	startedAt time.Time        // when it was last started
	changed   chan struct{}    // closed with the next change of the fields above
}

// state returns the program's address or the error of its last exit; with neither, it is
// starting. The channel is closed when either changes.
func (p *process) state() (address string, changed <-chan struct{}, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil {
		failure = p.failure
	}
	return p.address, p.changed, failure
}

func (p *process) setState(address string, failure *NotRunningError) {
	p.mu.Lock()
	if address == "" && failure == nil {
		p.startedAt = p.options.Now()
	}
	p.address, p.failure = address, failure
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	p.options.OnChange(p.name)
}

// supervise runs the program, and restarts it with backoff, until the context is done.
func (p *process) supervise(ctx context.Context) {
	defer close(p.stopped)
	// With Pdeathsig, the kernel kills the child when the thread that started it exits. So
	// this goroutine keeps its thread until it returns.
	runtime.LockOSThread()
	delay := p.options.MinBackoff
	for {
		p.setState("", nil)
		started := p.options.Now()
		output := &tail{next: p.options.Output(p.name)}
		served, err := p.runOnce(ctx, output)
		if ctx.Err() != nil {
			return
		}
		now := p.options.Now()
		if now.Sub(started) > 2*p.options.MaxBackoff { // it ran long enough to reset the backoff
			delay = p.options.MinBackoff
		}
		p.setState("", &NotRunningError{Function: p.name, Program: p.command.Program, Err: err, Output: output.String(),
			StartFailed: !served, RestartAt: now.Add(delay)})
		restart := time.NewTimer(delay)
		select {
		case <-restart.C:
		case <-ctx.Done():
			restart.Stop()
			return
		}
		delay = min(2*delay, p.options.MaxBackoff)
	}
}

var (
	errStartTimeout = errors.New("it did not accept connections in time")
	errExited       = errors.New("it exited with code 0")
)

// runOnce runs the program until it exits or the context is done. It returns the reason, and whether the program has
// accepted connections. When it returns, the program and its descendants have exited.
func (p *process) runOnce(ctx context.Context, output *tail) (served bool, err error) {
	address, err := freeAddress()
	if err != nil {
		return false, err
	}
	command := p.command.Build(address)
	command.Stdout, command.Stderr = output, output
	if command.Env == nil {
		command.Env = append([]string{}, p.options.Environment...) // nil would be the environment of this process
	}
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	processGroup(command.SysProcAttr)
	command.WaitDelay = time.Second // for descendants outside its process group that hold its output open
	if err := command.Start(); err != nil {
		return false, err
	}
	exited := make(chan error, 1)
	go func() {
		err := command.Wait()
		if err == nil {
			err = errExited
		}
		exited <- err
	}()
	if err := p.waitUntilListening(ctx, address, exited); err != nil {
		return false, p.terminate(command, exited, err)
	}
	output.discard()
	p.setState(address, nil)
	select {
	case err := <-exited:
		exited <- err
		return true, p.terminate(command, exited, err)
	case <-ctx.Done():
		return true, p.terminate(command, exited, context.Cause(ctx))
	}
}

// waitUntilListening returns nil once the program accepts connections. It returns an error
// if the program exits first, the start timeout passes or the context is done.
func (p *process) waitUntilListening(ctx context.Context, address string, exited chan error) error {
	timeout := time.NewTimer(p.options.StartTimeout)
	defer timeout.Stop()
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		dialer := net.Dialer{Timeout: time.Second}
		if connection, err := dialer.DialContext(ctx, "tcp", address); err == nil {
			return connection.Close()
		}
		select {
		case <-retry.C:
		case err := <-exited:
			exited <- err
			return err
		case <-timeout.C:
			return fmt.Errorf("%w (%s)", errStartTimeout, p.options.StartTimeout)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// terminate stops the program's process group, kills it after the grace period, and returns the
// given reason.
func (p *process) terminate(command *exec.Cmd, exited <-chan error, reason error) error {
	stopGroup(command.Process)
	grace := time.NewTimer(p.options.GracePeriod)
	defer grace.Stop()
	select {
	case <-exited:
		killGroup(command.Process) // descendants that are left
	case <-grace.C:
		killGroup(command.Process)
		<-exited
	}
	return reason
}

// freeAddress returns a loopback address with a free port. If another process takes the
// port first, the program exits, and the restart uses another port.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
