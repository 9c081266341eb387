package packages

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/composition/packages/local"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	builtin "github.com/espalier-dev/espalier/internal/program/functions"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// LocalFunction is a function on this machine. Either Program or Address is set.
type LocalFunction struct {
	// Program is the function's program, which runs as a child process.
	Program string
	// Address is the address that the function listens on: on this machine, or any with TLS.
	Address string
	// TLS calls the address with mutual TLS.
	TLS bool
}

// PreferBuiltIn reports whether built-in functions are called instead of packages that a package manager runs.
type PreferBuiltIn string

// Preferences. By default, a package is called if a client certificate is configured;
// otherwise the built-in function is called, if it is the same function.
const (
	PreferBuiltInAuto   PreferBuiltIn = "auto"
	PreferBuiltInAlways PreferBuiltIn = "true"
	PreferBuiltInNever  PreferBuiltIn = "false"
)

// SecretName names a Secret with ca.crt, tls.crt and tls.key.
type SecretName struct{ Namespace, Name string }

// Options configure a Registry. The zero Options are valid.
type Options struct {
	// Local are functions by name. They go before all other functions of the same name.
	Local map[string]LocalFunction
	// Certificates are the client certificates for packages. If nil, the ones in CertificatesSecret are used, if that
	// is set.
	Certificates       pipeline.Certificates
	CertificatesSecret SecretName
	// Packages runs the packages of Functions that nothing else serves. Without it, they are not run. The caller
	// closes it after the Registry.
	Packages *local.Functions
	// PreferBuiltIn is PreferBuiltInAuto by default.
	PreferBuiltIn PreferBuiltIn
	// AllowDevelopment allows a Function's annotations to name a port of this machine's loopback interface that
	// serves it without TLS, if the function is neither installed nor built in.
	AllowDevelopment bool
	// Environment are the environment variables of programs, as NAME=VALUE. Programs get no other ones.
	Environment []string
	// Limits limit a call.
	Limits pipeline.CallLimits
	// CacheBytes bounds the cache of responses. The default is 64 MiB.
	CacheBytes int
	// Output returns the writer for the output of a function's program. The default discards
	// it. The writer must be safe for concurrent use.
	Output func(name string) io.Writer
	// Now is the clock. The default is time.Now.
	Now func() time.Time
}

// Registry finds and calls the functions of a cluster. It is a pipeline.Runner and is safe
// for concurrent use. Before Start no function can be called.
type Registry struct {
	options       Options
	hub           *watch.Hub
	enqueue       func(object.Key)
	builtIn       map[string]bool
	builtInRunner pipeline.Functions
	programs      *pipeline.Processes
	remote        *pipeline.Remote
	localPackages *pipeline.Remote // nil without Options.Packages
	guarded       pipeline.Runner
	cache         *pipeline.Cache
	stopFuncs     []func()
	secretMu      sync.Mutex // guards the lease of the certificates' Secret

	mu          sync.RWMutex
	synced      map[string]bool // kinds that were synced once
	functions   map[string]*function
	revisions   map[string]revision
	routes      map[string]Route
	started     map[string]local.Package // that run for a function
	subscribers map[*subscriber]struct{}
	identity    string // the digest of the certificates in the Secret
}

var _ pipeline.Runner = (*Registry)(nil)

// New returns a registry that reads from a hub. The caller must close it.
func New(hub *watch.Hub, o Options) *Registry {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	c := &Registry{
		options: o, hub: hub, enqueue: func(object.Key) {}, synced: map[string]bool{},
		functions: map[string]*function{}, revisions: map[string]revision{},
		routes: map[string]Route{}, started: map[string]local.Package{}, subscribers: map[*subscriber]struct{}{},
	}
	c.builtIn = builtInNames()
	builtin.Register(&c.builtInRunner)
	c.programs = pipeline.NewProcesses(pipeline.ProcessOptions{Output: o.Output, Environment: o.Environment, Now: o.Now,
		OnChange: func(name string) { c.refreshFunction(name) }})
	c.remote = pipeline.NewRemote(pipeline.RemoteOptions{Endpoints: endpoints{c}, Certificates: c.certificates(), MaxBytes: o.Limits.MaxBytes, Now: o.Now})
	runners := pipeline.FirstOf{builtInFunctions{c}, c.remote}
	if o.Packages != nil {
		c.localPackages = pipeline.NewRemote(pipeline.RemoteOptions{Endpoints: localEndpoints{c}, Certificates: o.Packages.Identity, MaxBytes: o.Limits.MaxBytes, Now: o.Now})
		runners = append(runners, c.localPackages)
	}
	c.guarded = pipeline.Guard(runners, o.Limits)
	c.cache = pipeline.NewCache(uncachedOnRouteChange{c}, c.Revision, o.CacheBytes, o.Now)
	return c
}

// Start runs the programs and begins to watch. enqueue requests a reconcile of an object; it must not block.
func (c *Registry) Start(enqueue func(object.Key)) {
	c.mu.Lock()
	c.enqueue = enqueue
	c.mu.Unlock()
	for name, given := range c.options.Local {
		if given.Program != "" {
			c.programs.Start(name, given.Program)
		}
	}
	if c.options.Packages != nil {
		c.stopFuncs = append(c.stopFuncs, c.options.Packages.Subscribe(func(p local.Package) { c.refreshFunction(p.Function) }))
	}
	c.startWatches()
	if s := c.options.CertificatesSecret; s != (SecretName{}) {
		c.watchSecret()
	}
}

// Close stops the watches and the programs. Calls in flight complete first.
func (c *Registry) Close() {
	for _, stop := range c.stopFuncs {
		stop()
	}
	c.remote.Close()
	if c.localPackages != nil {
		c.localPackages.Close()
	}
	c.programs.Close()
}

// Run calls a function by its route, or returns a cached response. Responses of functions
// with an address or a development runtime are not cached: their code can change unnoticed.
func (c *Registry) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	p := c.Route(name)
	if p.Problem.Reason == FunctionsNotKnown {
		p = c.trackUnsynced(name)
	}
	return c.run(ctx, p, name, request)
}

func (c *Registry) run(ctx context.Context, p Route, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	switch {
	case p.Problem.Reason == UnknownFunction:
		return nil, &pipeline.UnknownFunctionError{Function: name}
	case (p.Backend == BackendNone || p.Backend == BackendLocalPackage) && p.Problem.Reason != "" && !p.Problem.Waits:
		return nil, &pipeline.UnknownFunctionError{Function: name, Problem: p.Problem.Message}
	}
	var runner pipeline.Runner = c.cache
	if p.Backend == BackendDevelopment || p.Backend == BackendAddress || p.Backend == BackendEndpoint {
		runner = c.guarded
	}
	response, err := runner.Run(context.WithValue(ctx, routeKey{}, p), name, request)
	var call *pipeline.CallError
	if served := p.servedBy(); served != "" && errors.As(err, &call) {
		return nil, &pipeline.CallError{Code: call.Code, Message: call.Message + "; " + served, Err: call.Err}
	}
	return response, err
}

// Route is the current route of a function.
func (c *Registry) Route(name string) Route {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if p, ok := c.routes[name]; ok {
		return p
	}
	return routeFor(c.routeInput(name))
}

// CheckInput lists the problems that make a function fail with an input for every composite of a kind, with paths in the input. Only
// built-in functions are checked, unless a package is installed for the function: it may know more than the built-in function that
// replaces it for the moment. It returns false while the functions of the cluster are unknown; subscribers are notified afterwards.
func (c *Registry) CheckInput(name string, input map[string]any, isFirstStep bool, composite schema.GroupVersionKind) (problems diag.List, known bool) {
	if c.Route(name).Problem.Reason == FunctionsNotKnown && c.trackUnsynced(name).Problem.Reason == FunctionsNotKnown {
		return nil, false
	}
	c.mu.RLock()
	f := c.routeInput(name)
	c.mu.RUnlock()
	if !f.isInputChecked() {
		return nil, true
	}
	return builtin.Invalid(f.builtIn, input, isFirstStep, composite), true
}

func (f routeInput) isInputChecked() bool {
	return routeFor(f).Backend == BackendBuiltIn && (len(f.revisions) == 0 || f.insteadOfPackage())
}

// trackUnsynced records a function that was called before the objects were read, so subscribers are notified once its
// route is known, even if it doesn't exist. It returns its current route.
func (c *Registry) trackUnsynced(name string) Route {
	c.mu.Lock()
	notify := c.updateRoutes(name)
	p, ok := c.routes[name]
	if !ok {
		p = routeFor(c.routeInput(name))
	}
	c.mu.Unlock()
	notify()
	return p
}

// Revision identifies the code of a function: the responses of two revisions may differ.
func (c *Registry) Revision(name string) string {
	p := c.Route(name)
	return string(p.Backend) + " " + p.Revision
}

// CacheStats returns the counters of the cache of responses.
func (c *Registry) CacheStats() pipeline.CacheStats { return c.cache.Stats() }

// routeKey is the context key of a call's route. All parts of a call use the same route,
// even if it changes meanwhile.
type routeKey struct{}

type builtInFunctions struct{ *Registry }

func (i builtInFunctions) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	p, _ := ctx.Value(routeKey{}).(Route)
	if p.Backend != BackendBuiltIn {
		return nil, &pipeline.UnknownFunctionError{Function: name}
	}
	return i.builtInRunner.Run(ctx, cmp.Or(p.BuiltInName, name), request)
}

type endpoints struct{ *Registry }

func (e endpoints) Endpoint(ctx context.Context, name string) (pipeline.Endpoint, error) {
	p, _ := ctx.Value(routeKey{}).(Route)
	switch {
	case p.Backend == BackendProgram:
		return e.programs.Endpoint(ctx, name)
	case p.Backend == BackendLocalPackage:
		return pipeline.Endpoint{}, &pipeline.UnknownFunctionError{Function: name}
	case p.Problem.Reason != "":
		return pipeline.Endpoint{}, errors.New(p.Problem.Message)
	}
	return p.Endpoint, nil
}

type localEndpoints struct{ *Registry }

func (e localEndpoints) Endpoint(ctx context.Context, name string) (pipeline.Endpoint, error) {
	p, _ := ctx.Value(routeKey{}).(Route)
	switch {
	case p.Backend != BackendLocalPackage:
		return pipeline.Endpoint{}, &pipeline.UnknownFunctionError{Function: name}
	case p.Problem.Reason != "":
		return pipeline.Endpoint{}, errors.New(p.Problem.Message)
	}
	return e.options.Packages.Endpoint(ctx, p.Package.Key())
}

// uncachedOnRouteChange removes the TTL of a response if the function's route changed during the call, so the
// response isn't cached for the wrong revision.
type uncachedOnRouteChange struct{ *Registry }

func (s uncachedOnRouteChange) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	response, err := s.guarded.Run(ctx, name, request)
	if p, _ := ctx.Value(routeKey{}).(Route); err != nil || p == s.Route(name) {
		return response, err
	}
	return &fnv1.RunFunctionResponse{ // the response without its TTL
		Meta:    &fnv1.ResponseMeta{Tag: response.GetMeta().GetTag()},
		Desired: response.GetDesired(), Results: response.GetResults(), Context: response.GetContext(),
		Requirements: response.GetRequirements(), Conditions: response.GetConditions(), Output: response.GetOutput(),
	}, nil
}

// routeInput requires the lock.
func (c *Registry) routeInput(name string) routeInput {
	f := c.options.routeInput(name, c.functions[name], c.builtIn)
	f.unsynced = c.unsyncedMessage()
	for _, r := range c.revisions {
		if r.function == name {
			f.revisions = append(f.revisions, r)
		}
	}
	f.samePackage = isSamePackage(f.image(), f.builtIn, c.builtIn)
	if f.local != nil {
		f.process.revision = c.programs.Revision(name)
		var ended *pipeline.NotRunningError
		if errors.As(c.programs.RunError(name), &ended) { // without the time of the restart, which would change the condition each time
			f.process.problem = strings.TrimSpace(ended.Program + " is not running and is restarted: " + ended.Err.Error() + outputSuffix(ended.Output))
		}
	}
	return f
}

// routeInput is what is known of a function without its revisions. f is nil if it has no object.
func (o Options) routeInput(name string, f *function, builtIn map[string]bool) routeInput {
	in := routeInput{
		name: name, builtIn: builtInNameFor(name, f, builtIn), object: f, prefer: o.PreferBuiltIn, allowDevelopment: o.AllowDevelopment,
		hasCertificates: o.Certificates != nil || o.CertificatesSecret != SecretName{}, runsPackages: o.Packages != nil,
	}
	if o.Packages != nil {
		in.packageState = o.Packages.State
	}
	if given, ok := o.Local[name]; ok {
		in.local = &given
	}
	return in
}

// PackageOf returns the package that runs on this machine for a Function without revisions; false if none does.
func (o Options) PackageOf(u *unstructured.Unstructured) (local.Package, bool) {
	r := routeFor(o.routeInput(u.GetName(), readFunction(u), builtInNames()))
	return r.Package, r.Backend == BackendLocalPackage
}

func builtInNames() map[string]bool {
	out := map[string]bool{}
	for name := range builtin.BuiltIn() {
		out[name] = true
	}
	return out
}

// builtInNameFor is the name of the built-in function for a function: the one with its name,
// or else the one of its package, which may be installed under any name.
func builtInNameFor(name string, f *function, builtIn map[string]bool) string {
	if builtIn[name] {
		return name
	}
	if f != nil {
		if as := builtin.PackageName(f.image); builtIn[as] {
			return as
		}
	}
	return ""
}

func outputSuffix(words string) string {
	if words == "" {
		return ""
	}
	return "; output: " + words
}

// NamesWithoutObject are the names of the functions that need no Function object, sorted: the built-in ones and the
// ones in Options.Local.
func (c *Registry) NamesWithoutObject() []string {
	names := slices.Collect(maps.Keys(c.builtIn))
	for name := range c.options.Local {
		if !c.builtIn[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
