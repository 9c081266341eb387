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

// process is a function's program, whichever of its lives it is in.
type process struct {
	name, program string
	arguments     []string
	options       ProcessOptions
	cancel        context.CancelFunc
	ended         chan struct{} // closed when it is gone for good

	mu      sync.Mutex
	address string           // where it accepts connections; "" while it does not
	failure *NotRunningError // how it ended, until it is started again
	began   time.Time        // its present life
	changed chan struct{}    // closed with the next change of these
}

// state returns where the program is served or why it is not; with neither, it is
// starting. The channel is closed when that changes.
func (p *process) state() (address string, changed <-chan struct{}, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil {
		failure = p.failure
	}
	return p.address, p.changed, failure
}

func (p *process) set(address string, failure *NotRunningError) {
	p.mu.Lock()
	if address == "" && failure == nil {
		p.began = p.options.Now()
	}
	p.address, p.failure = address, failure
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	p.options.Changed(p.name)
}

// supervise lives the program's lives until the context is done.
func (p *process) supervise(ctx context.Context) {
	defer close(p.ended)
	// The kernel ends the child with the thread that started it: it stays ours, and ends
	// with this goroutine.
	runtime.LockOSThread()
	delay := p.options.First
	for {
		p.set("", nil)
		began := p.options.Now()
		said := &tail{next: p.options.Output(p.name)}
		err := p.live(ctx, said)
		if ctx.Err() != nil {
			return
		}
		now := p.options.Now()
		if now.Sub(began) > 2*p.options.Last { // it did well for a while
			delay = p.options.First
		}
		p.set("", &NotRunningError{Function: p.name, Program: p.program, Err: err, Said: said.String(), Again: now.Add(delay)})
		again := time.NewTimer(delay)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return
		}
		delay = min(2*delay, p.options.Last)
	}
}

var (
	errSlow  = errors.New("it did not accept connections in time")
	errEnded = errors.New("it ended")
)

// live is one life of the program. When it returns, the program and all that it has
// started are gone; the error says how it ended.
func (p *process) live(ctx context.Context, said *tail) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	command := exec.Command(p.program, append([]string{"--insecure", "--address=" + address}, p.arguments...)...)
	command.Stdout, command.Stderr = said, said
	command.SysProcAttr = apart()
	command.WaitDelay = time.Second // for output of those that have left its process group
	if err := command.Start(); err != nil {
		return err
	}
	exited := make(chan error, 1)
	go func() {
		err := command.Wait()
		if err == nil {
			err = errEnded
		}
		exited <- err
	}()
	if err := p.accepts(ctx, address, exited); err != nil {
		return p.end(command, exited, err)
	}
	p.set(address, nil)
	select {
	case err := <-exited:
		exited <- err
		return p.end(command, exited, err)
	case <-ctx.Done():
		return p.end(command, exited, context.Cause(ctx))
	}
}

// accepts returns when the program accepts connections, or with the reason why it won't.
func (p *process) accepts(ctx context.Context, address string, exited chan error) error {
	late := time.NewTimer(p.options.Ready)
	defer late.Stop()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		dialer := net.Dialer{Timeout: time.Second}
		if connection, err := dialer.DialContext(ctx, "tcp", address); err == nil {
			return connection.Close()
		}
		select {
		case <-again.C:
		case err := <-exited:
			exited <- err
			return err
		case <-late.C:
			return fmt.Errorf("%w (%s)", errSlow, p.options.Ready)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// end ends the program's process group, gently at first, and hands on the reason.
func (p *process) end(command *exec.Cmd, exited <-chan error, reason error) error {
	group := -command.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM) // fails if they are gone, which is what is wanted
	grace := time.NewTimer(p.options.Grace)
	defer grace.Stop()
	select {
	case <-exited:
		_ = syscall.Kill(group, syscall.SIGKILL) // whom it has left behind
	case <-grace.C:
		_ = syscall.Kill(group, syscall.SIGKILL)
		<-exited
	}
	return reason
}

// freeAddress finds a port that nobody listens on. Somebody may take it before the
// program does; then the program ends, and another is found.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
