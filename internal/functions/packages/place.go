package packages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
)

// By is how a function is served.
type By string

// The ways, in the order in which they are preferred.
const (
	// ByProgram: a child process of this one, as Options say.
	ByProgram By = "Program"
	// ByAddress: an address on this machine, as Options say.
	ByAddress By = "Address"
	// ByDevelopment: where the Function's annotations say that its author runs it.
	ByDevelopment By = "Development"
	// ByPackage: where the active FunctionRevision says.
	ByPackage By = "Package"
	// BuiltIn: in this process.
	BuiltIn By = "BuiltIn"
	// Nowhere: Problem says why.
	Nowhere By = "Nowhere"
)

// Place is where the calls of a function go.
type Place struct {
	By By
	// Endpoint is of those that are served at one that is known beforehand.
	Endpoint pipeline.Endpoint
	// Revision tells one incarnation of the function from another.
	Revision string
	// As is the name that what is built in has here, if it is served under another.
	As string
	// Problem is why it can't be called; the zero Problem if it can.
	Problem Problem
	// Unwell is what its package manager says is wrong with it. It is called all the same.
	Unwell string
}

// Problem is why a function can't be called, and what to do about it.
type Problem struct {
	Reason, Message string
}

// Reasons of problems.
const (
	// Unknown: there is no function of that name.
	Unknown = "UnknownFunction"
	// Unseen: it isn't known yet which functions there are.
	Unseen = "FunctionsNotKnown"
	// NotRunning: its program has ended, and is started again.
	NotRunning = "ProgramNotRunning"
	// NoRuntime: it is a package, and nobody here runs packages.
	NoRuntime = "NoPackageRuntime"
	// NoActiveRevision: none of its revisions is to be used.
	NoActiveRevision = "NoActiveRevision"
	// NoEndpoint: its active revision isn't served.
	NoEndpoint = "NoEndpoint"
	// NoCertificates: it can be called with certificates only, and there are none.
	NoCertificates = "NoCertificates"
	// NotForCompositions: its package can do other things.
	NotForCompositions = "NotForCompositions"
)

// facts are what is known of one function.
type facts struct {
	name  string
	given *Given
	// running is what became of the program, if that is what is given.
	running running
	// builtIn is the name of what is built in for it; empty if nothing is.
	builtIn string
	// unseen is why the objects can't be told; empty if they can.
	unseen string
	// object is the Function, nil if there is none.
	object    *function
	revisions []revision
	// certificates says that there are any to call it with.
	certificates bool
	// prefer says whether what is built in goes before its package, and samePackage that
	// the package is what is built in, and not only called like it.
	prefer      PreferBuiltIn
	samePackage bool
}

// image is that of the function's package, as far as anybody says.
func (f facts) image() string {
	if f.object != nil && f.object.image != "" {
		return f.object.image
	}
	active, _ := activeOf(f.revisions)
	return active.image
}

// isSamePackage says whether a package is what is built in under a name, of all that is
// built in: that knows itself by the names of its package and of its author's Function.
func isSamePackage(image, builtIn string, all map[string]bool) bool {
	name := packageName(image)
	return builtIn != "" && all[name] && strings.HasSuffix(name, builtIn)
}

// insteadOfPackage says whether what is built in is called although the package is served.
func (f facts) insteadOfPackage() bool {
	switch {
	case f.builtIn == "":
		return false
	case f.prefer == PreferBuiltInAlways:
		return true
	}
	return f.prefer != PreferBuiltInNever && f.samePackage && !f.certificates
}

// running is what became of a program.
type running struct {
	revision string
	trouble  string
}

// decide says where the calls of a function go. It is a pure function.
func decide(f facts) Place {
	switch {
	case f.given != nil && f.given.Program != "":
		p := Place{By: ByProgram, Revision: f.running.revision}
		if f.running.trouble != "" {
			p.Problem = Problem{NotRunning, f.running.trouble}
		}
		return p
	case f.given != nil:
		return Place{By: ByAddress, Endpoint: pipeline.Endpoint{Target: f.given.Address, Plain: true}, Revision: f.given.Address}
	case f.unseen != "":
		return nowhere(Unseen, "it isn't known yet which functions there are: %s", f.unseen)
	case f.object != nil && f.object.development != "":
		return Place{
			By:       ByDevelopment,
			Endpoint: pipeline.Endpoint{Target: f.object.development, Plain: true, Development: true},
			Revision: f.object.uid + " " + f.object.development,
		}
	}
	active, known := activeOf(f.revisions)
	switch {
	case known && active.endpoint != "" && !f.insteadOfPackage():
		return packaged(f, active)
	case f.builtIn != "":
		p := Place{By: BuiltIn, Revision: "built in"}
		if f.builtIn != f.name {
			p.As, p.Revision = f.builtIn, "built in as "+f.builtIn
		}
		return p
	case known:
		p := nowhere(NoEndpoint, "its active FunctionRevision %s has no status.endpoint", active.name)
		if active.unwell != "" {
			p.Problem.Message += ": " + active.unwell
		}
		return p
	case len(f.revisions) > 0:
		return nowhere(NoActiveRevision, "none of its FunctionRevisions is Active (spec.desiredState)")
	case f.object != nil:
		return nowhere(NoRuntime, "nobody here runs packages, and %s is one. %s", f.object.image, ways(f.name))
	}
	return nowhere(Unknown, "there is no Function %s", f.name)
}

// packaged is a function whose package somebody runs.
func packaged(f facts, active revision) Place {
	switch {
	case len(active.capabilities) > 0 && !slices.Contains(active.capabilities, v1.CapabilityComposition):
		return nowhere(NotForCompositions, "its active FunctionRevision %s isn't for compositions: it can do %s", active.name, strings.Join(active.capabilities, ", "))
	case !f.certificates:
		p := nowhere(NoCertificates, "it is served at %s with mutual TLS, and there are no certificates to call functions with: "+
			"--function-certificates or --function-certificates-secret names them", active.endpoint)
		if f.builtIn != "" {
			p.Problem.Message += ", or --functions-prefer-builtin calls the function of that name that is part of this program"
		}
		return p
	}
	return Place{
		By:       ByPackage,
		Endpoint: pipeline.Endpoint{Target: active.endpoint},
		Revision: active.uid + " " + active.endpoint,
		Unwell:   active.unwell,
	}
}

// activeOf is the revision that is to be called: of several that are active the newest.
func activeOf(all []revision) (revision, bool) {
	active := slices.DeleteFunc(slices.Clone(all), func(r revision) bool { return !r.active })
	if len(active) == 0 {
		return revision{}, false
	}
	return slices.MaxFunc(active, func(a, b revision) int {
		return cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.name, b.name))
	}), true
}

// packageName is the name that a Function of a package is given where it is installed as
// somebody's dependency: the last two parts of the image's path.
func packageName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	parts := strings.Split(image, "/")
	if len(parts) < 2 {
		return ""
	}
	name, _, _ := strings.Cut(parts[len(parts)-1], ":")
	return parts[len(parts)-2] + "-" + name
}

func nowhere(reason, format string, args ...any) Place {
	return Place{By: Nowhere, Problem: Problem{reason, fmt.Sprintf(format, args...)}}
}

// ways says how a function is served without a package manager.
func ways(name string) string {
	return fmt.Sprintf("Serve it as a program (--function %s=./program) or from an address on this machine (--function %s=127.0.0.1:9443), "+
		"or annotate it with %s=%s and %s=host:port, or let a package manager run it", name, name, v1.RuntimeAnnotation, v1.RuntimeDevelopment, v1.DevelopmentTargetAnnotation)
}
