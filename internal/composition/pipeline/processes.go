package pipeline

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// Processes are functions that are child processes of this one: programs that are
// started as function programs commonly are, with
//
//	--insecure --address=127.0.0.1:PORT
//
// They are the Endpoints of a Remote. One that ends is started again, after a delay that
// grows while it keeps ending.
type Processes struct {
	options ProcessOptions

	mu    sync.Mutex
	known map[string]*process
}

// ProcessOptions configure Processes. Zero values stand for the defaults.
type ProcessOptions struct {
	// Output takes what the function of a name prints: nowhere. It must be safe for use
	// by several goroutines.
	Output func(name string) io.Writer
	// First and Last are the shortest and the longest delay before a program that has
	// ended is started again: 200 ms and 30 s.
	First, Last time.Duration
	// Ready is how long a program may take until it accepts connections: 30 s.
	Ready time.Duration
	// Grace is how long a program may take to end when it is asked to: 3 s.
	Grace time.Duration
	// Changed is told of each function whose program accepts connections, has ended or is
	// started again; optional. It must not block.
	Changed func(name string)
	// Now is the clock: time.Now.
	Now func() time.Time
}

// NewProcesses makes a set of functions, as yet empty. It must be closed.
func NewProcesses(o ProcessOptions) *Processes {
	if o.Output == nil {
		o.Output = func(string) io.Writer { return io.Discard }
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	for value, standard := range map[*time.Duration]time.Duration{
		&o.First: 200 * time.Millisecond, &o.Last: 30 * time.Second, &o.Ready: 30 * time.Second, &o.Grace: 3 * time.Second,
	} {
		if *value == 0 {
			*value = standard
		}
	}
	return &Processes{options: o, known: map[string]*process{}}
}

// Start runs a program as the function of that name from now on, in place of any other.
// The arguments come behind the usual ones. That the program cannot be started is said
// by Endpoint.
func (p *Processes) Start(name, program string, arguments ...string) {
	p.Stop(name)
	ctx, cancel := context.WithCancel(context.Background())
	child := &process{
		name: name, program: program, arguments: arguments,
		options: p.options, cancel: cancel,
		ended: make(chan struct{}), changed: make(chan struct{}),
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.known[name]; other != nil { // started at the same time
		other.cancel()
	}
	p.known[name] = child
	go child.supervise(ctx)
}

// Stop ends a function's program and all that it has started, and returns when they are
// gone.
func (p *Processes) Stop(name string) {
	p.mu.Lock()
	child := p.known[name]
	delete(p.known, name)
	p.mu.Unlock()
	if child != nil {
		child.cancel()
		<-child.ended
	}
}

// Close stops all of them.
func (p *Processes) Close() {
	p.mu.Lock()
	all := p.known
	p.known = map[string]*process{}
	p.mu.Unlock()
	for _, child := range all {
		child.cancel()
	}
	for _, child := range all {
		<-child.ended
	}
}

// Endpoint returns where the function is served, and waits for one that is starting.
// One that has ended and will be started again is a NotRunningError.
func (p *Processes) Endpoint(ctx context.Context, name string) (Endpoint, error) {
	p.mu.Lock()
	child := p.known[name]
	p.mu.Unlock()
	if child == nil {
		return Endpoint{}, &UnknownError{Function: name}
	}
	for {
		address, changed, failure := child.state()
		switch {
		case failure != nil:
			return Endpoint{}, failure
		case address != "":
			return Endpoint{Target: "passthrough:///" + address, Plain: true}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Endpoint{}, context.Cause(ctx)
		}
	}
}

// Trouble is a NotRunningError for a function whose program has ended and will be started
// again, and nil for all others. It waits for nothing.
func (p *Processes) Trouble(name string) error {
	p.mu.Lock()
	child := p.known[name]
	p.mu.Unlock()
	if child == nil {
		return nil
	}
	_, _, failure := child.state()
	return failure
}

// Revision tells one start of a function's program from another. What another start of
// the program answers may differ: people build it anew in between.
func (p *Processes) Revision(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	child := p.known[name]
	if child == nil {
		return ""
	}
	child.mu.Lock()
	defer child.mu.Unlock()
	return child.program + "#" + strconv.FormatInt(child.began.UnixNano(), 36)
}

// NotRunningError says that a function's program has ended, or never came up, and is
// started again later.
type NotRunningError struct {
	Function, Program string
	// Err is how it ended.
	Err error
	// Said is the end of what it printed.
	Said string
	// Again is when it is started again.
	Again time.Time
}

func (e *NotRunningError) Error() string {
	text := fmt.Sprintf("%s is not running and is started again at %s: %v", e.Program, e.Again.Format(time.TimeOnly), e.Err)
	if e.Said != "" {
		text += "; it said: " + e.Said
	}
	return shorten(text)
}

func (e *NotRunningError) Unwrap() error { return e.Err }
