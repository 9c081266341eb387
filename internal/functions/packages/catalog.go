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

	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	builtin "github.com/espalier-dev/espalier/internal/functions"
	"github.com/espalier-dev/espalier/internal/kube/watch"
	"github.com/espalier-dev/espalier/internal/object"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

// Given is how a function is served that the options name: one of both.
type Given struct {
	// Program is a function's program, which is run as a child of this one.
	Program string
	// Address is where a function listens on this machine, without TLS.
	Address string
}

// PreferBuiltIn says whether functions that are part of this program are called instead of
// packages that somebody runs.
type PreferBuiltIn string

// Preferences. By default a package is called where there are certificates to call it
// with; without them what is built in takes its place, if it is the same function.
const (
	PreferBuiltInAuto   PreferBuiltIn = "auto"
	PreferBuiltInAlways PreferBuiltIn = "true"
	PreferBuiltInNever  PreferBuiltIn = "false"
)

// SecretName names a Secret with ca.crt, tls.crt and tls.key.
type SecretName struct{ Namespace, Name string }

// Options say what is known of functions beside the cluster's objects, and how they are
// called. The zero Options are good ones.
type Options struct {
	// Given are functions by name. They go before all others of their names.
	Given map[string]Given
	// Certificates are for functions whose packages somebody runs; and if there are none,
	// those in the Secret, if one is named.
	Certificates       pipeline.Certificates
	CertificatesSecret SecretName
	// PreferBuiltIn is PreferBuiltInAuto by default.
	PreferBuiltIn PreferBuiltIn
	// Limits are what a call may cost.
	Limits pipeline.Limits
	// Remembered is how many bytes of answers are remembered: 64 MiB.
	Remembered int
	// Output takes what the program of a function prints: nowhere. It must be safe for use
	// by several goroutines.
	Output func(name string) io.Writer
	// Now is the clock: time.Now.
	Now func() time.Time
}

// Catalog knows the functions of a cluster and calls them. It is a pipeline.Runner, and
// safe for concurrent use. Until Start nothing can be called.
type Catalog struct {
	options  Options
	hub      *watch.Hub
	wake     func(object.Key)
	builtIn  map[string]bool
	inside   pipeline.Functions
	programs *pipeline.Processes
	remote   *pipeline.Remote
	guarded  pipeline.Runner
	cache    *pipeline.Cache
	stop     []func()
	reading  sync.Mutex // of the Secret, by one at a time

	mu        sync.RWMutex
	known     map[string]bool // the kinds of which all objects are known
	functions map[string]*function
	revisions map[string]revision
	places    map[string]Place
	listeners map[*listener]struct{}
}

var _ pipeline.Runner = (*Catalog)(nil)

// New prepares a catalog over the watches of a hub. It must be closed.
func New(hub *watch.Hub, o Options) *Catalog {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Remembered == 0 {
		o.Remembered = 64 << 20
	}
	c := &Catalog{
		options: o, hub: hub, wake: func(object.Key) {}, builtIn: map[string]bool{}, known: map[string]bool{},
		functions: map[string]*function{}, revisions: map[string]revision{},
		places: map[string]Place{}, listeners: map[*listener]struct{}{},
	}
	for name := range builtin.All() {
		c.builtIn[name] = true
	}
	builtin.Register(&c.inside)
	c.programs = pipeline.NewProcesses(pipeline.ProcessOptions{Output: o.Output, Now: o.Now, Changed: func(name string) { c.look(name) }})
	c.remote = pipeline.NewRemote(pipeline.RemoteOptions{Endpoints: endpoints{c}, Certificates: c.certificates(), Bytes: o.Limits.Bytes, Now: o.Now})
	c.guarded = pipeline.Guard(pipeline.Any{inside{c}, c.remote}, o.Limits)
	c.cache = pipeline.NewCache(steady{c}, c.Revision, o.Remembered, o.Now)
	return c
}

// Start runs the programs and begins to watch. Wake asks for a pass of a Reconciler; it
// must not block.
func (c *Catalog) Start(wake func(object.Key)) {
	c.mu.Lock()
	c.wake = wake
	c.mu.Unlock()
	for name, given := range c.options.Given {
		if given.Program != "" {
			c.programs.Start(name, given.Program)
		}
	}
	c.watch()
	if s := c.options.CertificatesSecret; s != (SecretName{}) {
		c.watchSecret()
	}
}

// Close ends what was started; calls under way end first.
func (c *Catalog) Close() {
	for _, stop := range c.stop {
		stop()
	}
	c.remote.Close()
	c.programs.Close()
}

// Run calls a function where it is served, or answers from memory. What is being
// developed changes without a word: of that nothing is remembered.
func (c *Catalog) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	p := c.Place(name)
	if p.Problem.Reason == Unseen {
		p = c.expect(name)
	}
	if p.Problem.Reason == Unknown {
		return nil, &pipeline.UnknownError{Function: name}
	}
	var runner pipeline.Runner = c.cache
	if p.By == ByDevelopment || p.By == ByAddress {
		runner = c.guarded
	}
	response, err := runner.Run(context.WithValue(ctx, placeKey{}, p), name, request)
	var call *pipeline.CallError
	if p.Unwell != "" && errors.As(err, &call) {
		return nil, &pipeline.CallError{Code: call.Code, Message: call.Message + "; its package isn't well: " + p.Unwell, Err: call.Err}
	}
	return response, err
}

// Place says where the calls of a function go now.
func (c *Catalog) Place(name string) Place {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if p, ok := c.places[name]; ok {
		return p
	}
	return decide(c.facts(name))
}

// expect remembers a function that somebody has asked for too early, so that what is
// found out about it is told, if only that there is none. It returns where it is now.
func (c *Catalog) expect(name string) Place {
	c.mu.Lock()
	tell := c.decide(name)
	p, ok := c.places[name]
	if !ok {
		p = decide(c.facts(name))
	}
	c.mu.Unlock()
	tell()
	return p
}

// Revision tells one incarnation of a function from another: what one answers need not
// be what another does.
func (c *Catalog) Revision(name string) string {
	p := c.Place(name)
	return string(p.By) + " " + p.Revision
}

// Stats tells of what is remembered.
func (c *Catalog) Stats() pipeline.CacheStats { return c.cache.Stats() }

// placeKey is the key of the place that a call goes to, in its context: it goes to one
// alone, whatever happens meanwhile.
type placeKey struct{}

// inside runs the functions that are built in.
type inside struct{ *Catalog }

func (i inside) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	p, _ := ctx.Value(placeKey{}).(Place)
	if p.By != BuiltIn {
		return nil, &pipeline.UnknownError{Function: name}
	}
	return i.inside.Run(ctx, cmp.Or(p.As, name), request)
}

// endpoints say where functions are that are elsewhere.
type endpoints struct{ *Catalog }

func (e endpoints) Endpoint(ctx context.Context, name string) (pipeline.Endpoint, error) {
	p, _ := ctx.Value(placeKey{}).(Place)
	switch {
	case p.By == ByProgram:
		return e.programs.Endpoint(ctx, name)
	case p.Problem.Reason != "":
		return pipeline.Endpoint{}, errors.New(p.Problem.Message)
	}
	return p.Endpoint, nil
}

// steady lets an answer be remembered only if the function was the same from the moment
// at which its revision was told until the answer was there.
type steady struct{ *Catalog }

func (s steady) Run(ctx context.Context, name string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	response, err := s.guarded.Run(ctx, name, request)
	if p, _ := ctx.Value(placeKey{}).(Place); err != nil || p == s.Place(name) {
		return response, err
	}
	return &fnv1.RunFunctionResponse{ // as it was, without how long it holds
		Meta:    &fnv1.ResponseMeta{Tag: response.GetMeta().GetTag()},
		Desired: response.GetDesired(), Results: response.GetResults(), Context: response.GetContext(),
		Requirements: response.GetRequirements(), Conditions: response.GetConditions(), Output: response.GetOutput(),
	}, nil
}

// facts are what is known of a function, under the lock.
func (c *Catalog) facts(name string) facts {
	f := facts{name: name, builtIn: c.builtInFor(name), object: c.functions[name], unseen: c.unseen(), prefer: c.options.PreferBuiltIn}
	f.certificates = c.options.Certificates != nil || c.options.CertificatesSecret != SecretName{}
	for _, r := range c.revisions {
		if r.of == name {
			f.revisions = append(f.revisions, r)
		}
	}
	f.samePackage = isSamePackage(f.image(), f.builtIn, c.builtIn)
	if given, ok := c.options.Given[name]; ok {
		f.given = &given
		f.running.revision = c.programs.Revision(name)
		var ended *pipeline.NotRunningError
		if errors.As(c.programs.Trouble(name), &ended) { // without the time of the next start, which moves
			f.running.trouble = strings.TrimSpace(ended.Program + " is not running, and is started again: " + ended.Err.Error() + said(ended.Said))
		}
	}
	return f
}

// builtInFor is what is built in for a function: what has its name, or else what its
// package is. People install one package under several names.
func (c *Catalog) builtInFor(name string) string {
	if c.builtIn[name] {
		return name
	}
	if f := c.functions[name]; f != nil {
		if as := packageName(f.image); c.builtIn[as] {
			return as
		}
	}
	return ""
}

func said(words string) string {
	if words == "" {
		return ""
	}
	return "; it said: " + words
}

// Known are the names of the functions that can be called without a Function object,
// sorted: those that are part of this program, and those that somebody has given it.
func (c *Catalog) Known() []string {
	names := slices.Collect(maps.Keys(c.builtIn))
	for name := range c.options.Given {
		if !c.builtIn[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
