package local

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/espalier-dev/espalier/internal/composition/packages/local/launch"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/diag"
)

// Fetch returns the image of a package for a platform. Its layers may be fetched when they are read, within the context.
type Fetch func(ctx context.Context, p Package, platform v1.Platform) (v1.Image, error)

// Package is a function's package.
type Package struct {
	// Function is the name of the function, which its output is printed with.
	Function string
	// Image is the reference to its image.
	Image string
	// Pull is when a registry is asked for it.
	Pull corev1.PullPolicy
}

// Options configure Functions. Fetch and Store are required.
type Options struct {
	Fetch Fetch
	Store *Store
	// Machine returns what this machine allows.
	Machine func() launch.Machine
	// Environment are environment variables for the programs, as NAME=VALUE, in addition to the ones in their images.
	Environment []string
	// Output returns the writer for what concerns a function, and for the output of its program.
	Output func(function string) io.Writer
	// MinBackoff and MaxBackoff bound the time after which a failed fetch is tried again, 5 s and 5 min by default.
	MinBackoff, MaxBackoff time.Duration
	// Processes are the options of the programs.
	Processes pipeline.ProcessOptions
}

// fetchLimit is how long it may take to fetch and unpack an image.
const fetchLimit = 15 * time.Minute

// Functions fetches packages and runs them, each one once. It is the Endpoints of a pipeline.Remote, by image, whose
// Certificates are those of Identity. It is safe for concurrent use.
type Functions struct {
	options   Options
	authority *authority
	processes *pipeline.Processes
	started   sync.WaitGroup

	mu          sync.Mutex
	packages    map[Package]*running
	subscribers map[*func(Package)]struct{}
}

// running is a package that is started.
type running struct {
	users   int
	cancel  context.CancelFunc
	changed chan struct{} // closed with the next change of the fields below
	state   State
	problem string // why the program ended last, until it is ready
}

// State is what a package does.
type State struct {
	// Ready says that its program accepts connections.
	Ready bool
	// Fetching says that its image is being fetched, Failed that it was not, or cannot be run.
	// Refused says that this machine does not run it, so it is not tried again.
	Fetching, Failed, Refused bool
	// Message is what it does, or why it is not ready, with a remedy.
	Message string
	// Revision identifies a start of the program.
	Revision string
}

// New returns Functions without packages. The caller must close them.
func New(o Options) (*Functions, error) {
	if o.MinBackoff == 0 {
		o.MinBackoff, o.MaxBackoff = 5*time.Second, 5*time.Minute
	}
	if o.Machine == nil {
		o.Machine = ThisMachine
	}
	if o.Output == nil {
		o.Output = func(string) io.Writer { return io.Discard }
	}
	a, err := newAuthority()
	if err != nil {
		return nil, err
	}
	f := &Functions{options: o, authority: a, packages: map[Package]*running{}, subscribers: map[*func(Package)]struct{}{}}
	o.Processes.Output = func(key string) io.Writer { return o.Output(packageOf(key).Function) }
	o.Processes.OnChange = func(key string) { f.notify(packageOf(key)) }
	f.processes = pipeline.NewProcesses(o.Processes)
	return f, nil
}

// Identity is the client certificate that the programs accept, until the Functions are closed.
func (f *Functions) Identity() (pipeline.Identity, error) { return f.authority.client, nil }

// Key is the name of a package as a function of a pipeline.Remote.
func (p Package) Key() string { return p.Function + " " + string(p.Pull) + " " + p.Image }

func packageOf(key string) (p Package) {
	function, rest, _ := strings.Cut(key, " ")
	pull, image, _ := strings.Cut(rest, " ")
	return Package{function, image, corev1.PullPolicy(pull)}
}

// Subscribe calls notify with a package when its state changes. notify must not block.
func (f *Functions) Subscribe(notify func(Package)) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribers[&notify] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.subscribers, &notify)
	}
}

func (f *Functions) notify(p Package) {
	f.mu.Lock()
	var all []func(Package)
	for notify := range f.subscribers {
		all = append(all, *notify)
	}
	if r := f.packages[p]; r != nil {
		close(r.changed)
		r.changed = make(chan struct{})
	}
	f.mu.Unlock()
	for _, notify := range all {
		notify(p)
	}
}

// Start begins to fetch and to run a package, unless it is started already. Each Start takes a Stop or Close.
func (f *Functions) Start(p Package) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.packages[p]; r != nil {
		r.users++
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{users: 1, cancel: cancel, changed: make(chan struct{}), state: State{Fetching: true, Message: "fetching " + p.Image}}
	f.packages[p] = r
	f.started.Go(func() { f.run(ctx, p, r) })
}

// Stop ends a package once nobody uses it. It returns at once.
func (f *Functions) Stop(p Package) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.packages[p]; r != nil {
		if r.users--; r.users == 0 {
			delete(f.packages, p)
			r.cancel()
		}
	}
}

// Close stops all packages.
func (f *Functions) Close() {
	f.mu.Lock()
	all := f.packages
	f.packages = map[Package]*running{}
	f.mu.Unlock()
	for _, r := range all {
		r.cancel()
	}
	f.started.Wait()
}

// run fetches the package, and runs its program until the context is done.
func (f *Functions) run(ctx context.Context, p Package, r *running) {
	delay := f.options.MinBackoff
	for {
		program, err := f.prepare(ctx, p)
		if err == nil {
			f.serve(ctx, p, r, program)
			return
		}
		if ctx.Err() != nil {
			return
		}
		message := diag.Truncate(err.Error(), 2<<10)
		fmt.Fprintf(f.options.Output(p.Function), "%s: %s\n", p.Image, message)
		refused := errors.As(err, new(*RefusedError))
		f.setState(p, r, State{Failed: true, Refused: refused, Message: p.Image + ": " + message})
		var again <-chan time.Time
		if !refused {
			again = time.After(delay)
		}
		select {
		case <-again:
		case <-ctx.Done():
			return
		}
		delay = min(2*delay, f.options.MaxBackoff)
		f.setState(p, r, State{Fetching: true, Failed: true, Message: "fetching " + p.Image + " again: " + message})
	}
}

func (f *Functions) serve(ctx context.Context, p Package, r *running, program *program) {
	defer program.close()
	name := serverName(p)
	identity, err := f.authority.issue(name, x509.ExtKeyUsageServerAuth)
	if err == nil {
		err = writeIdentity(identity, filepath.Join(program.own, certificatesDirectory))
	}
	if err == nil {
		err = program.hand()
	}
	if err != nil {
		f.setState(p, r, State{Failed: true, Message: p.Image + ": " + err.Error()})
		<-ctx.Done()
		return
	}
	f.setState(p, r, State{Message: "starting " + p.Image})
	f.processes.StartCommand(p.Key(), pipeline.Command{
		Program: p.Image, ServerName: name,
		Build: func(address string) *exec.Cmd { return program.command(address, f.options.Environment) },
	})
	<-ctx.Done()
	f.processes.Stop(p.Key())
}

// serverName is a name that only the certificate of this package has.
func serverName(p Package) string {
	sum := sha256.Sum256([]byte(p.Key()))
	return hex.EncodeToString(sum[:16]) + ".function.localhost"
}

// RefusedError is returned for a package that this machine does not run.
type RefusedError struct {
	Function string
	Err      error
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%v. Otherwise build the function for this machine and pass --function %s=./program, or run it elsewhere and pass --function %s=ENDPOINT",
		e.Err, e.Function, e.Function)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// prepare fetches and unpacks the image, and decides how it is run.
func (f *Functions) prepare(ctx context.Context, p Package) (*program, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchLimit, fmt.Errorf("it was not fetched within %s", fetchLimit))
	defer cancel()
	output := f.options.Output(p.Function)
	fmt.Fprintf(output, "fetching %s\n", p.Image)
	image, err := f.options.Fetch(ctx, p, v1.Platform{OS: "linux", Architecture: runtime.GOARCH})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	machine := f.options.Machine()
	if err := machine.CheckPlatform(config.OS, config.Architecture); err != nil {
		return nil, &RefusedError{p.Function, err}
	}
	u, err := f.options.Store.open(ctx, image)
	if err != nil {
		return nil, err
	}
	program, err := f.newProgram(p, u, machine)
	if err != nil {
		u.release()
		return nil, err
	}
	digest, _ := image.Digest() // the store has read it
	fmt.Fprintf(output, "running %s of %s %s\n", program.Program, digest, program.Method)
	return program, nil
}

func (f *Functions) newProgram(p Package, u *unpacked, m launch.Machine) (*program, error) {
	i, err := inspect(u)
	if err != nil {
		return nil, err
	}
	l, err := launch.Decide(i, m)
	if err != nil {
		return nil, &RefusedError{p.Function, err}
	}
	return newProgram(l, u)
}

func (f *Functions) setState(p Package, r *running, s State) {
	f.mu.Lock()
	r.state = s
	f.mu.Unlock()
	f.notify(p)
}

// State returns the state of a package.
func (f *Functions) State(p Package) State {
	f.mu.Lock()
	r := f.packages[p]
	var s State
	if r != nil {
		s = r.state
	}
	f.mu.Unlock()
	if r == nil || s.Fetching || s.Failed {
		return s
	}
	s.Ready, s.Revision = f.processes.IsRunning(p.Key()), f.processes.Revision(p.Key())
	var ended *pipeline.NotRunningError
	if errors.As(f.processes.RunError(p.Key()), &ended) {
		s.Failed, s.Message = true, startProblem(p, ended)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case s.Ready:
		r.problem = ""
	case s.Failed:
		r.problem = s.Message
	case r.problem != "": // it is starting again, and most likely for the same end
		s.Failed, s.Message = true, r.problem
	}
	return s
}

// startProblem is without the time of the next start, which would change it each time.
func startProblem(p Package, e *pipeline.NotRunningError) string {
	text := fmt.Sprintf("its program is not running and is restarted: %v", e.Err)
	if e.Output != "" {
		text += "; output: " + e.Output
	}
	if e.StartFailed {
		text += fmt.Sprintf(". It is started with --address=127.0.0.1:PORT and TLS_SERVER_CERTS_DIR. If it does not know them, run it yourself and "+
			"pass --function %s=ENDPOINT", p.Function)
	}
	return diag.Truncate(text, 4<<10)
}

// Wait returns once each package has run or failed, or the context is done.
func (f *Functions) Wait(ctx context.Context) error {
	for {
		pending := f.pending()
		if pending == nil {
			return nil
		}
		select {
		case <-pending:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pending returns a channel that is closed with the next change of a package that has neither run nor failed.
func (f *Functions) pending() <-chan struct{} {
	f.mu.Lock()
	all := map[Package]chan struct{}{}
	for p, r := range f.packages {
		all[p] = r.changed // before its state is read
	}
	f.mu.Unlock()
	for p, changed := range all {
		if s := f.State(p); !s.Ready && !s.Failed {
			return changed
		}
	}
	return nil
}

// Endpoint implements pipeline.Endpoints, by the key of a package.
func (f *Functions) Endpoint(ctx context.Context, key string) (pipeline.Endpoint, error) {
	return f.processes.Endpoint(ctx, key)
}
