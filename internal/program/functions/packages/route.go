package packages

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/composition/packages/local"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	builtin "github.com/espalier-dev/espalier/internal/program/functions"
)

// Backend is what serves a function.
type Backend string

// The backends, in order of preference.
const (
	// BackendProgram: a child process, from Options.Local.
	BackendProgram Backend = "Program"
	// BackendAddress: an address on this machine, from Options.Local.
	BackendAddress Backend = "Address"
	// BackendPackage: the endpoint of the active FunctionRevision.
	BackendPackage Backend = "Package"
	// BackendBuiltIn: in this process.
	BackendBuiltIn Backend = "BuiltIn"
	// BackendEndpoint: the address in the Function's annotation, with mutual TLS.
	BackendEndpoint Backend = "Endpoint"
	// BackendDevelopment: the address in the Function's annotations of the development runtime.
	BackendDevelopment Backend = "Development"
	// BackendLocalPackage: a child process of its package, by Options.Packages.
	BackendLocalPackage Backend = "LocalPackage"
	// BackendNone: the function cannot be called; Route.Problem contains the reason.
	BackendNone Backend = "None"
)

// passthrough makes gRPC connect to an address without a resolver.
const passthrough = "passthrough:///"

// Route is the backend of a function.
type Route struct {
	Backend Backend
	// Endpoint is the endpoint of BackendAddress, BackendEndpoint, BackendDevelopment and BackendPackage.
	Endpoint pipeline.Endpoint
	// Revision identifies the function's code: the responses of two revisions may differ.
	Revision string
	// BuiltInName is the name of the built-in function, if it differs from the function's.
	BuiltInName string
	// Problem is why the function cannot be called; the zero Problem if it can be.
	Problem Problem
	// Package is the package of BackendLocalPackage.
	Package local.Package
	// FunctionRevision is the name of the FunctionRevision of BackendPackage.
	FunctionRevision string
	// PackageProblem is why its package manager set it unhealthy. It is called anyway.
	PackageProblem string
}

// servedBy says what serves a function outside this process, for the error of a call; "" for other routes.
func (p Route) servedBy() string {
	target := strings.TrimPrefix(p.Endpoint.Target, passthrough)
	switch p.Backend {
	case BackendAddress:
		return "it is served at " + target + " (--function)"
	case BackendEndpoint:
		return "it is served at " + target + " (annotation " + v1.EndpointAnnotation + " of the Function)"
	case BackendDevelopment:
		return "it is served at " + target + " (annotation " + v1.DevelopmentTargetAnnotation + " of the Function)"
	case BackendPackage:
		text := "it is served by FunctionRevision " + p.FunctionRevision + " at " + target
		if p.PackageProblem != "" {
			text += ", and its package is unhealthy: " + p.PackageProblem
		}
		return text
	case BackendNone, BackendBuiltIn, BackendProgram, BackendLocalPackage:
	}
	return ""
}

// Problem is why a function cannot be called, with a remedy.
type Problem struct {
	Reason, Message string
	// Waits says that it ends without an action of a user: a package manager installs the function.
	Waits bool
}

// Reasons of problems.
const (
	// UnknownFunction: there is no function of that name.
	UnknownFunction = "UnknownFunction"
	// FunctionsNotKnown: Functions and FunctionRevisions are not read yet.
	FunctionsNotKnown = "FunctionsNotKnown"
	// ProgramNotRunning: its program has exited and is restarted later.
	ProgramNotRunning = "ProgramNotRunning"
	// PackageNotInstalled: its package is not fetched yet, or cannot be run on this machine.
	PackageNotInstalled = "PackageNotInstalled"
	// InvalidEndpoint: the annotation does not have the address of a function.
	InvalidEndpoint = "InvalidEndpoint"
	// NoPackageRuntime: it is a package, and no package manager runs it.
	NoPackageRuntime = "NoPackageRuntime"
	// NoActiveRevision: none of its revisions is active.
	NoActiveRevision = "NoActiveRevision"
	// NoEndpoint: its active revision has no endpoint.
	NoEndpoint = "NoEndpoint"
	// NoCertificates: calls need a client certificate, and none is configured.
	NoCertificates = "NoCertificates"
	// DevelopmentNotAllowed: its annotations name a development runtime that must not be called.
	DevelopmentNotAllowed = "DevelopmentNotAllowed"
	// NotForCompositions: its package lacks the capability composition.
	NotForCompositions = "NotForCompositions"
	// NotForOperations: its package lacks the capability operation.
	NotForOperations = "NotForOperations"
)

type routeInput struct {
	name  string
	local *LocalFunction
	// process is the state of the program, if local names one.
	process programState
	// builtIn is the name of the built-in function for it; empty if there is none.
	builtIn string
	// unsynced is why the objects aren't read yet; empty if they are.
	unsynced string
	// object is the Function, nil if there is none.
	object           *function
	revisions        []revision
	allowDevelopment bool
	hasCertificates  bool
	// runsPackages says that packages run on this machine, and packageState returns the state of one.
	runsPackages bool
	packageState func(local.Package) local.State
	// prefer is the preference between the built-in function and the package. samePackage says that the package is
	// the built-in function's, and doesn't only share its name.
	prefer      PreferBuiltIn
	samePackage bool
	// operation says that an operation calls it, and not a composition.
	operation bool
}

// image is the image of the function's package, from the Function or its active revision; "" if neither names one.
func (f routeInput) image() string {
	if f.object != nil && f.object.image != "" {
		return f.object.image
	}
	active, _ := activeRevision(f.revisions)
	return active.image
}

// isSamePackage reports whether a package is the package of a built-in function: the built-in functions (all) are
// registered by the name of their package and by their usual name.
func isSamePackage(image, builtIn string, all map[string]bool) bool {
	name := builtin.PackageName(image)
	return builtIn != "" && all[name] && strings.HasSuffix(name, builtIn)
}

func (f routeInput) insteadOfPackage() bool {
	switch {
	case f.builtIn == "":
		return false
	case f.prefer == PreferBuiltInAlways:
		return true
	}
	return f.prefer != PreferBuiltInNever && f.samePackage && !f.hasCertificates
}

// programState is the state of a program: its revision, and why it isn't running, or "".
type programState struct {
	revision string
	problem  string
}

func routeFor(f routeInput) Route {
	switch {
	case f.local != nil && f.local.Program != "":
		p := Route{Backend: BackendProgram, Revision: f.process.revision}
		if f.process.problem != "" {
			p.Problem = Problem{Reason: ProgramNotRunning, Message: f.process.problem, Waits: true}
		}
		return p
	case f.local != nil && f.local.TLS && !f.hasCertificates:
		return noRoute(NoCertificates, "calls to %s need a client certificate, and none is configured: set functions.certPath (--function-certs) or "+
			"functions.certificatesSecret", f.local.Address)
	case f.local != nil && f.local.TLS:
		return Route{Backend: BackendAddress, Endpoint: pipeline.Endpoint{Target: f.local.Address}, Revision: f.local.Address}
	case f.local != nil:
		return Route{Backend: BackendAddress, Endpoint: pipeline.Endpoint{Target: f.local.Address, Insecure: true}, Revision: f.local.Address}
	case f.unsynced != "":
		return noRoute(FunctionsNotKnown, "the functions of the cluster are not read yet: %s", f.unsynced).waiting(true)
	}
	active, hasActive := activeRevision(f.revisions)
	isManaged := f.object != nil && f.object.managedElsewhere || slices.ContainsFunc(f.revisions, func(r revision) bool { return r.managedElsewhere })
	switch {
	case hasActive && active.endpoint != "" && !f.insteadOfPackage():
		return packageRoute(f, active)
	case f.builtIn != "":
		p := Route{Backend: BackendBuiltIn, Revision: "built in"}
		if f.builtIn != f.name {
			p.BuiltInName, p.Revision = f.builtIn, "built in as "+f.builtIn
		}
		return p
	case f.object != nil && f.object.endpoint != "":
		return f.endpointRoute()
	case f.object != nil && f.object.development != "":
		return f.developmentRoute()
	case hasActive:
		p := noRoute(NoEndpoint, "its active FunctionRevision %s has no status.endpoint", active.name)
		if active.problem != "" {
			p.Problem.Message += ": " + active.problem
		}
		return p.waiting(isManaged)
	case len(f.revisions) > 0:
		return noRoute(NoActiveRevision, "none of its FunctionRevisions is Active (spec.desiredState)").waiting(isManaged)
	case f.object != nil && isManaged:
		return noRoute(NoActiveRevision, "its package manager has not made a FunctionRevision of its package %s yet", f.object.image).waiting(true)
	case f.object != nil && f.object.image != "" && f.runsPackages:
		return f.localPackageRoute()
	case f.object != nil:
		return noRoute(NoPackageRuntime, "no package manager runs its package %s. %s", f.object.image, servingHelp(f.name))
	}
	return noRoute(UnknownFunction, "there is no Function %s", f.name)
}

// endpointRoute is the route of a function that its users run. Its certificate must be signed by the configured authority,
// so whoever writes the annotation cannot send the data of composites elsewhere.
func (f routeInput) endpointRoute() Route {
	target := strings.TrimPrefix(f.object.endpoint, "dns:///")
	host, port, err := net.SplitHostPort(target)
	_, numberErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || numberErr != nil || host == "" || strings.Contains(host, "/"):
		return noRoute(InvalidEndpoint, "the annotation %s must be host:port, such as %s.default:9443, not %s", v1.EndpointAnnotation, f.name, f.object.endpoint)
	case !f.hasCertificates:
		return noRoute(NoCertificates, "calls to %s (annotation %s) need a client certificate, and none is configured: "+
			"set functions.certPath (--function-certs) or functions.certificatesSecret", target, v1.EndpointAnnotation)
	}
	return Route{Backend: BackendEndpoint, Endpoint: pipeline.Endpoint{Target: "dns:///" + target}, Revision: f.object.uid + " " + target}
}

// localPackageRoute is the route of a function whose package runs on this machine, or will.
func (f routeInput) localPackageRoute() Route {
	r := Route{Backend: BackendLocalPackage, Package: local.Package{Function: f.name, Image: f.object.image, Pull: f.object.pull}}
	var s local.State
	if f.packageState != nil {
		s = f.packageState(r.Package)
	}
	r.Revision = s.Revision
	switch {
	case s.Ready:
	case s.Revision != "":
		r.Problem = Problem{Reason: ProgramNotRunning, Message: cmp.Or(s.Message, "its program is starting"), Waits: true}
	default:
		r.Problem = Problem{Reason: PackageNotInstalled, Message: cmp.Or(s.Message, "fetching "+f.object.image), Waits: !s.Refused}
	}
	return r
}

// developmentRoute is the route of a function whose annotations name a development runtime. Calls of it are not
// encrypted and contain the data of composites, so they never leave this machine.
func (f routeInput) developmentRoute() Route {
	target := f.object.development
	address, isLocal := loopbackAddress(target)
	switch {
	case !f.allowDevelopment:
		return noRoute(DevelopmentNotAllowed, "the annotation %s names %s, which is called without TLS only with --functions-development. %s",
			v1.DevelopmentTargetAnnotation, target, servingHelp(f.name))
	case !isLocal:
		return noRoute(DevelopmentNotAllowed, "the annotation %s names %s, which is not a port of the loopback interface, and calls of it are not encrypted. %s",
			v1.DevelopmentTargetAnnotation, target, servingHelp(f.name))
	}
	return Route{Backend: BackendDevelopment, Endpoint: pipeline.Endpoint{Target: passthrough + address, Insecure: true}, Revision: f.object.uid + " " + address}
}

// loopbackAddress is the address of a target that is host:port, of a loopback address or localhost, which is not
// resolved. Some of gRPC's many other targets reach sockets or names.
func loopbackAddress(target string) (address string, ok bool) {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(target, "dns:///"))
	if err != nil {
		return "", false
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip := net.ParseIP(host)
	if ip == nil || !ip.IsLoopback() {
		return "", false
	}
	return net.JoinHostPort(host, port), true
}

func packageRoute(f routeInput, active revision) Route {
	switch {
	case f.operation && !slices.Contains(active.capabilities, v1.CapabilityOperation):
		return noRoute(NotForOperations, "its active FunctionRevision %s lacks the capability operation; it has %s", active.name,
			cmp.Or(strings.Join(active.capabilities, ", "), "none"))
	case !f.operation && len(active.capabilities) > 0 && !slices.Contains(active.capabilities, v1.CapabilityComposition):
		return noRoute(NotForCompositions, "its active FunctionRevision %s lacks the capability composition; it has %s", active.name,
			strings.Join(active.capabilities, ", "))
	case !f.hasCertificates:
		p := noRoute(NoCertificates, "calls to %s need a client certificate, and none is configured: "+
			"set functions.certPath or functions.certificatesSecret in the file of --config", active.endpoint)
		if f.builtIn != "" {
			p.Problem.Message += ", or functions.preferBuiltIn to call the built-in function of that name"
		}
		return p
	}
	return Route{
		Backend:          BackendPackage,
		Endpoint:         pipeline.Endpoint{Target: active.endpoint, Revision: active.uid},
		Revision:         active.uid + " " + active.endpoint,
		FunctionRevision: active.name,
		PackageProblem:   active.problem,
	}
}

// activeRevision returns the newest if several are active: of those with an endpoint, if there are any. During an upgrade, the new one has
// none before it has taken over.
func activeRevision(all []revision) (revision, bool) {
	active := slices.DeleteFunc(slices.Clone(all), func(r revision) bool { return !r.active })
	if len(active) == 0 {
		return revision{}, false
	}
	serves := func(r revision) int { return min(len(r.endpoint), 1) }
	return slices.MaxFunc(active, func(a, b revision) int {
		return cmp.Or(cmp.Compare(serves(a), serves(b)), cmp.Compare(a.number, b.number), strings.Compare(a.name, b.name))
	}), true
}

// waiting sets whether the route's problem ends without an action of a user.
func (p Route) waiting(waits bool) Route {
	p.Problem.Waits = waits
	return p
}

func noRoute(reason, format string, args ...any) Route {
	return Route{Backend: BackendNone, Problem: Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

func servingHelp(name string) string {
	return fmt.Sprintf("Serve it as a program (--function %s=./program) or from an address on this machine (--function %s=127.0.0.1:9443), "+
		"or let packages be installed: packages.enabled in the file of --config, unless Crossplane runs them", name, name)
}
