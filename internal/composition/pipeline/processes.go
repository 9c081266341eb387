package pipeline

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// Processes runs functions as child processes. It is the Endpoints of a Remote. A program that exits is restarted with exponential backoff. It is safe for
// concurrent use.
type Processes struct {
	options ProcessOptions

	mu        sync.Mutex
	processes map[string]*process
}

// ProcessOptions configure Processes. Zero values stand for the defaults.
type ProcessOptions struct {
	// Output returns the writer for the output of a function's program. The default discards
	// it. The writer must be safe for concurrent use.
	Output func(name string) io.Writer
	// Environment are the environment variables of the programs, as NAME=VALUE. They get no other ones: the
	// environment of this process may contain credentials.
	Environment []string
	// MinBackoff and MaxBackoff bound the delay before a program is restarted. The defaults
	// are 200 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// StartTimeout is how long a program may take until it accepts connections. The default
	// is 30 s.
	StartTimeout time.Duration
	// GracePeriod is the time between SIGTERM and SIGKILL. The default is 3 s.
	GracePeriod time.Duration
	// OnChange is called when a function's program starts, accepts connections or exits;
	// optional. It must not block.
	OnChange func(name string)
	// Now is the clock. The default is time.Now.
	Now func() time.Time
}

// NewProcesses returns an empty set of functions. The caller must close it.
func NewProcesses(o ProcessOptions) *Processes {
	if o.Output == nil {
		o.Output = func(string) io.Writer { return io.Discard }
	}
	if o.OnChange == nil {
		o.OnChange = func(string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	for value, standard := range map[*time.Duration]time.Duration{
		&o.MinBackoff: 200 * time.Millisecond, &o.MaxBackoff: 30 * time.Second, &o.StartTimeout: 30 * time.Second, &o.GracePeriod: 3 * time.Second,
	} {
		if *value == 0 {
			*value = standard
		}
	}
	return &Processes{options: o, processes: map[string]*process{}}
}

// Command is how the program of a function is started.
type Command struct {
	// Program names the program in messages.
	Program string
	// Build returns the command that serves the function at an address on loopback. It is called for each start.
	// Processes set the command's output and process group. Without Env, the program gets Environment.
	Build func(address string) *exec.Cmd
	// ServerName is the name in the certificate of a program that serves TLS. Without it, calls are not encrypted.
	ServerName string
}

// Start runs a program as the function of that name, without TLS, with the flags of function programs:
//
//	--insecure --address=127.0.0.1:PORT
func (p *Processes) Start(name, program string) {
	p.StartCommand(name, Command{Program: program, Build: func(address string) *exec.Cmd {
		return exec.Command(program, "--insecure", "--address="+address)
	}})
}

// StartCommand runs a command as the function of that name and replaces its current program. If it can't be started,
// Endpoint returns the error.
func (p *Processes) StartCommand(name string, command Command) {
	p.Stop(name)
	ctx, cancel := context.WithCancel(context.Background())
	child := &process{
		name: name, command: command,
		options: p.options, cancel: cancel,
		stopped: make(chan struct{}), changed: make(chan struct{}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.processes[name]; other != nil { // from a concurrent Start
		other.cancel()
	}
	p.processes[name] = child
	go child.supervise(ctx)
}

// Stop terminates a function's program and its descendants, and returns once they have
// exited.
func (p *Processes) Stop(name string) {
	p.mu.Lock()
	child := p.processes[name]
	delete(p.processes, name)
	p.mu.Unlock()
	if child != nil {
		child.cancel()
		<-child.stopped
	}
}

// Close stops all programs.
func (p *Processes) Close() {
	p.mu.Lock()
	all := p.processes
	p.processes = map[string]*process{}
	p.mu.Unlock()
	for _, child := range all {
		child.cancel()
	}
	for _, child := range all {
		<-child.stopped
	}
}

// Endpoint returns the function's endpoint. It waits for a program that is starting, and
// returns a NotRunningError for one that has exited and is not restarted yet.
func (p *Processes) Endpoint(ctx context.Context, name string) (Endpoint, error) {
	p.mu.Lock()
	child := p.processes[name]
	p.mu.Unlock()
	if child == nil {
		return Endpoint{}, &UnknownFunctionError{Function: name}
	}
	for {
		address, changed, failure := child.state()
		switch {
		case failure != nil:
			return Endpoint{}, failure
		case address != "":
			return Endpoint{Target: "passthrough:///" + address, ServerName: child.command.ServerName, Insecure: child.command.ServerName == ""}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Endpoint{}, context.Cause(ctx)
		}
	}
}

// IsRunning reports whether the program of a function accepts connections.
func (p *Processes) IsRunning(name string) bool {
	p.mu.Lock()
	child := p.processes[name]
	p.mu.Unlock()
	if child == nil {
		return false
	}
	address, _, _ := child.state()
	return address != ""
}

// RunError returns a NotRunningError for a function if its program has exited and is not
// restarted yet, and nil for all others. It doesn't block.
func (p *Processes) RunError(name string) error {
	p.mu.Lock()
	child := p.processes[name]
	p.mu.Unlock()
	if child == nil {
		return nil
	}
	_, _, failure := child.state()
	return failure
}

// Revision identifies one start of a function's program. The program may have been rebuilt
// before a restart, so its responses may differ.
func (p *Processes) Revision(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	child := p.processes[name]
	if child == nil {
		return ""
	}
	child.mu.Lock()
	defer child.mu.Unlock()
	return child.command.Program + "#" + strconv.FormatInt(child.startedAt.UnixNano(), 36)
}

// NotRunningError is returned if the program of a function has exited, or could not be
// started, and is restarted later.
type NotRunningError struct {
	Function, Program string
	// Err is the exit error.
	Err error
	// Output is the end of the program's output, if it exited before it accepted connections. Later output may
	// contain data of any composite.
	Output string
	// StartFailed says that it did not accept connections before.
	StartFailed bool
	// RestartAt is when the program is restarted.
	RestartAt time.Time
}

func (e *NotRunningError) Error() string {
	text := fmt.Sprintf("%s is not running and restarts at %s: %v", e.Program, e.RestartAt.Format(time.TimeOnly), e.Err)
	if e.Output != "" {
		text += "; output: " + e.Output
	}
	return shorten(text)
}

func (e *NotRunningError) Unwrap() error { return e.Err }
