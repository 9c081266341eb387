package packages

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/composition/packages/local"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	builtin "github.com/espalier-dev/espalier/internal/program/functions"
)

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestWhereAFunctionIs(t *testing.T) {
	const (
		plain     = "{metadata: {name: f, uid: u}, spec: {package: example.org/f:v1}}"
		developed = "{metadata: {name: f, uid: u, annotations: {render.crossplane.io/runtime: Development, render.crossplane.io/runtime-development-target: 'dns:///localhost:7443'}}}"
		remote    = "{metadata: {name: f, uid: u, annotations: {render.crossplane.io/runtime: Development, render.crossplane.io/runtime-development-target: 'dns:///dev.example.org:7443'}}}"
		socket    = "{metadata: {name: f, uid: u, annotations: {render.crossplane.io/runtime: Development, render.crossplane.io/runtime-development-target: 'unix:///run/other.sock'}}}"
		nearby    = "{metadata: {name: f, uid: u, annotations: {render.crossplane.io/runtime: Development}}}"
		docker    = "{metadata: {name: f, uid: u, annotations: {render.crossplane.io/runtime: Docker, render.crossplane.io/runtime-development-target: 'x:1'}}, spec: {package: p}}"

		active    = "{metadata: {name: f-2, uid: r2, labels: {pkg.crossplane.io/package: f}}, spec: {desiredState: Active, revision: 2}, status: {endpoint: 'f.system:9443', capabilities: [composition]}}"
		newest    = "{metadata: {name: f-3, uid: r3, labels: {pkg.crossplane.io/package: f}}, spec: {desiredState: Active, revision: 3}, status: {endpoint: 'f3.system:9443'}}"
		inactive  = "{metadata: {name: f-9, uid: r9, labels: {pkg.crossplane.io/package: f}}, spec: {desiredState: Inactive, revision: 9}, status: {endpoint: 'f9.system:9443'}}"
		pending   = "{metadata: {name: f-2, uid: r2, labels: {pkg.crossplane.io/package: f}}, spec: {desiredState: Active, revision: 2}, status: {conditions: [{type: RuntimeHealthy, status: 'False', reason: UnhealthyPackageRevision, message: the image is not there}]}}"
		forgotten = "{metadata: {name: f-2, uid: r2, labels: {pkg.crossplane.io/package: f}}, spec: {desiredState: Active, revision: 2}}"
		unpacking = "{metadata: {name: f, uid: u}, spec: {package: example.org/f:v1}, status: {conditions: [{type: Installed, status: 'False', reason: UnpackingPackage, message: m}]}}"
		unwell    = "{metadata: {name: f-2, uid: r2, labels: {pkg.crossplane.io/package: f}}, spec: {desiredState: Active, revision: 2}, status: {endpoint: 'f.system:9443', conditions: [{type: RuntimeHealthy, status: 'False', reason: UnhealthyPackageRevision, message: no pod}]}}"
		operates  = "{metadata: {name: f-2, uid: r2, labels: {pkg.crossplane.io/package: f}}, spec: {desiredState: Active, revision: 2}, status: {endpoint: 'f.system:9443', capabilities: [operation]}}"
	)
	const served = "{metadata: {name: f, uid: u, annotations: {espalier.dev/endpoint: 'f.default:9443'}}, spec: {package: example.org/f:v1}}"
	packageF := local.Package{Function: "f", Image: "example.org/f:v1", Pull: "IfNotPresent"}
	packaged := Route{Backend: BackendPackage, Endpoint: pipeline.Endpoint{Target: "f.system:9443", Revision: "r2"}, Revision: "r2 f.system:9443", FunctionRevision: "f-2"}
	cases := map[string]struct {
		given     *LocalFunction
		running   programState
		builtIn   string
		unseen    string
		function  string
		revisions []string
		without   bool // certificates
		// development is Options.AllowDevelopment
		development bool
		prefer      PreferBuiltIn
		same        bool // the package is what is built in
		operation   bool // calls it
		// packages are the states of packages that run on this machine; nil if they don't
		packages map[string]local.State
		want     Route
		says     string // of the problem's message
	}{
		"A program that is given goes before all": {
			given: &LocalFunction{Program: "/f"}, running: programState{revision: "1"}, builtIn: "f", unseen: "no", function: developed, revisions: []string{active},
			want: Route{Backend: BackendProgram, Revision: "1"},
		},
		"A program that has ended has a problem": {
			given: &LocalFunction{Program: "/f"}, running: programState{revision: "1", problem: "/f is not running"},
			want: Route{Backend: BackendProgram, Revision: "1", Problem: Problem{Reason: ProgramNotRunning, Waits: true}}, says: "/f is not running",
		},
		"An address that is given goes before all": {
			given: &LocalFunction{Address: "127.0.0.1:1"}, builtIn: "f", function: developed, revisions: []string{active},
			want: Route{Backend: BackendAddress, Endpoint: pipeline.Endpoint{Target: "127.0.0.1:1", Insecure: true}, Revision: "127.0.0.1:1"},
		},
		"Nothing is called before it is known whether somebody else serves it": {
			builtIn: "f", unseen: "the watch has only begun",
			want: Route{Backend: BackendNone, Problem: Problem{Reason: FunctionsNotKnown, Waits: true}}, says: "the watch has only begun",
		},
		"A Function that is developed is called where its author says": {
			function: developed, development: true,
			want: Route{Backend: BackendDevelopment, Endpoint: pipeline.Endpoint{Target: "passthrough:///127.0.0.1:7443", Insecure: true}, Revision: "u 127.0.0.1:7443"},
		},
		"One whose author doesn't say where is where authors run it": {
			function: nearby, development: true,
			want: Route{Backend: BackendDevelopment, Endpoint: pipeline.Endpoint{Target: "passthrough:///127.0.0.1:9443", Insecure: true}, Revision: "u 127.0.0.1:9443"},
		},
		"Without --functions-development it isn't called": {
			function: developed,
			want:     Route{Backend: BackendNone, Problem: Problem{Reason: DevelopmentNotAllowed}}, says: "only with --functions-development",
		},
		"No call without TLS leaves this machine": {
			function: remote, development: true,
			want: Route{Backend: BackendNone, Problem: Problem{Reason: DevelopmentNotAllowed}}, says: "dev.example.org:7443, which is not a port of the loopback interface",
		},
		"Nor does it go to the socket of another program": {
			function: socket, development: true,
			want: Route{Backend: BackendNone, Problem: Problem{Reason: DevelopmentNotAllowed}}, says: "unix:///run/other.sock, which is not a port",
		},
		"An installed function isn't replaced by one that is developed": {
			function: developed, revisions: []string{active}, development: true, want: packaged,
		},
		"Nor is a built-in one": {
			builtIn: "f", function: developed, development: true, want: Route{Backend: BackendBuiltIn, Revision: "built in"},
		},
		"Other runtimes are the rendering tool's": {
			function: docker,
			want:     Route{Backend: BackendNone, Problem: Problem{Reason: NoPackageRuntime}}, says: "no package manager runs its package p",
		},
		"The active revision is called":                        {function: plain, revisions: []string{inactive, active}, want: packaged},
		"It goes before what is built in":                      {builtIn: "f", function: plain, revisions: []string{active}, want: packaged},
		"It is called though its Function has gone":            {revisions: []string{active}, want: packaged},
		"Of two active revisions the newest is called":         {revisions: []string{newest, active}, want: Route{Backend: BackendPackage, Endpoint: pipeline.Endpoint{Target: "f3.system:9443", Revision: "r3"}, Revision: "r3 f3.system:9443", FunctionRevision: "f-3"}},
		"One that isn't served yet leaves to what is built in": {builtIn: "f", function: plain, revisions: []string{pending}, want: Route{Backend: BackendBuiltIn, Revision: "built in"}},
		"What is built in needs no Function":                   {builtIn: "f", want: Route{Backend: BackendBuiltIn, Revision: "built in"}},
		"What is built in needs no package":                    {builtIn: "f", function: plain, want: Route{Backend: BackendBuiltIn, Revision: "built in"}},
		"A package that is built in under another name is called under that": {
			builtIn: "org-ready", function: plain, want: Route{Backend: BackendBuiltIn, BuiltInName: "org-ready", Revision: "built in as org-ready"},
		},
		"A revision that isn't well is called all the same": {
			revisions: []string{unwell},
			want:      Route{Backend: BackendPackage, Endpoint: packaged.Endpoint, Revision: packaged.Revision, FunctionRevision: "f-2", PackageProblem: "RuntimeHealthy is False: UnhealthyPackageRevision: no pod"},
		},
		"A revision without an endpoint says what is wrong with it": {
			function: plain, revisions: []string{pending},
			want: Route{Backend: BackendNone, Problem: Problem{Reason: NoEndpoint, Waits: true}}, says: "f-2 has no status.endpoint: RuntimeHealthy is False: UnhealthyPackageRevision: the image is not there",
		},
		"A revision without an endpoint that nobody manages has a problem that stays": {
			function: plain, revisions: []string{forgotten},
			want: Route{Backend: BackendNone, Problem: Problem{Reason: NoEndpoint}}, says: "f-2 has no status.endpoint",
		},
		"A function whose package manager has only begun is waited for": {
			function: unpacking,
			want:     Route{Backend: BackendNone, Problem: Problem{Reason: NoActiveRevision, Waits: true}}, says: "has not made a FunctionRevision",
		},
		"A function without an active revision isn't called": {
			function: plain, revisions: []string{inactive},
			want: Route{Backend: BackendNone, Problem: Problem{Reason: NoActiveRevision}}, says: "spec.desiredState",
		},
		"A function for other things isn't called": {
			function: plain, revisions: []string{operates}, builtIn: "f",
			want: Route{Backend: BackendNone, Problem: Problem{Reason: NotForCompositions}}, says: "it has operation",
		},
		"An operation calls a function for operations": {operation: true, function: plain, revisions: []string{operates}, want: packaged},
		"An operation doesn't call a function for compositions": {
			operation: true, function: plain, revisions: []string{active},
			want: Route{Backend: BackendNone, Problem: Problem{Reason: NotForOperations}}, says: "lacks the capability operation; it has composition",
		},
		"An operation doesn't call a function that names no capabilities": {
			operation: true, function: plain, revisions: []string{newest},
			want: Route{Backend: BackendNone, Problem: Problem{Reason: NotForOperations}}, says: "it has none",
		},
		"An operation calls what is built in": {operation: true, builtIn: "f", want: Route{Backend: BackendBuiltIn, Revision: "built in"}},
		"Nobody is called without certificates who wants some": {
			function: plain, revisions: []string{active}, without: true,
			want: Route{Backend: BackendNone, Problem: Problem{Reason: NoCertificates}}, says: "functions.certPath",
		},
		"The same function is built in, and needs no certificates": {
			builtIn: "f", same: true, function: plain, revisions: []string{active}, without: true,
			want: Route{Backend: BackendBuiltIn, Revision: "built in"},
		},
		"With certificates its package is called": {builtIn: "f", same: true, function: plain, revisions: []string{active}, want: packaged},
		"Another package of that name is another function, and there is something to do": {
			builtIn: "f", function: plain, revisions: []string{active}, without: true,
			want: Route{Backend: BackendNone, Problem: Problem{Reason: NoCertificates}}, says: "functions.certificatesSecret in the file of --config, or functions.preferBuiltIn to call the built-in function of that name",
		},
		"What is built in goes first where that is asked for": {
			builtIn: "f", function: plain, revisions: []string{active}, prefer: PreferBuiltInAlways,
			want: Route{Backend: BackendBuiltIn, Revision: "built in"},
		},
		"What is built in stands back where that is asked for": {
			builtIn: "f", same: true, function: plain, revisions: []string{active}, without: true, prefer: PreferBuiltInNever,
			want: Route{Backend: BackendNone, Problem: Problem{Reason: NoCertificates}}, says: "functions.preferBuiltIn",
		},
		"A package that nobody runs is told what to do about": {
			function: plain,
			want:     Route{Backend: BackendNone, Problem: Problem{Reason: NoPackageRuntime}}, says: "example.org/f:v1. Serve it as a program (--function f=./program)",
		},
		"A package that nobody runs is fetched where packages run": {
			function: plain, packages: map[string]local.State{},
			want: Route{Backend: BackendLocalPackage, Package: packageF, Problem: Problem{Reason: PackageNotInstalled, Waits: true}}, says: "fetching example.org/f:v1",
		},
		"A package that runs here is called": {
			function: plain, packages: map[string]local.State{packageF.Image: {Ready: true, Revision: "1"}},
			want: Route{Backend: BackendLocalPackage, Package: packageF, Revision: "1"},
		},
		"A package that has ended has a problem": {
			function: plain, packages: map[string]local.State{packageF.Image: {Failed: true, Revision: "1", Message: "exit status 3"}},
			want: Route{Backend: BackendLocalPackage, Package: packageF, Revision: "1", Problem: Problem{Reason: ProgramNotRunning, Waits: true}}, says: "exit status 3",
		},
		"A package that this machine doesn't run needs a user": {
			function: plain, packages: map[string]local.State{packageF.Image: {Failed: true, Refused: true, Message: "for linux/s390x"}},
			want: Route{Backend: BackendLocalPackage, Package: packageF, Problem: Problem{Reason: PackageNotInstalled}}, says: "for linux/s390x",
		},
		"A package is not run if it is built in": {
			builtIn: "f", function: plain, packages: map[string]local.State{}, want: Route{Backend: BackendBuiltIn, Revision: "built in"},
		},
		"A package is not run if its revision has an endpoint": {
			function: plain, revisions: []string{active}, packages: map[string]local.State{}, want: packaged,
		},
		"A package is not run if a package manager unpacks it": {
			function: unpacking, packages: map[string]local.State{},
			want: Route{Backend: BackendNone, Problem: Problem{Reason: NoActiveRevision, Waits: true}}, says: "has not made a FunctionRevision",
		},
		"A Function with an endpoint is called there": {
			function: served, packages: map[string]local.State{},
			want: Route{Backend: BackendEndpoint, Endpoint: pipeline.Endpoint{Target: "dns:///f.default:9443"}, Revision: "u f.default:9443"},
		},
		"A Function with an endpoint is not called without certificates": {
			function: served, without: true,
			want: Route{Backend: BackendNone, Problem: Problem{Reason: NoCertificates}}, says: "calls to f.default:9443 (annotation espalier.dev/endpoint) need a client certificate",
		},
		"An endpoint doesn't replace what is built in": {
			builtIn: "f", function: served, want: Route{Backend: BackendBuiltIn, Revision: "built in"},
		},
		"An endpoint that is no host and port is refused": {
			function: "{metadata: {name: f, uid: u, annotations: {espalier.dev/endpoint: 'unix:///run/x.sock'}}}",
			want:     Route{Backend: BackendNone, Problem: Problem{Reason: InvalidEndpoint}}, says: "must be host:port, such as f.default:9443",
		},
		"An address with TLS that is given": {
			given: &LocalFunction{Address: "f.example.org:1", TLS: true},
			want:  Route{Backend: BackendAddress, Endpoint: pipeline.Endpoint{Target: "f.example.org:1"}, Revision: "f.example.org:1"},
		},
		"An address with TLS needs certificates": {
			given: &LocalFunction{Address: "f.example.org:1", TLS: true}, without: true,
			want: Route{Backend: BackendNone, Problem: Problem{Reason: NoCertificates}}, says: "--function-certs",
		},
		"What nobody has heard of is unknown": {want: Route{Backend: BackendNone, Problem: Problem{Reason: UnknownFunction}}, says: "there is no Function f"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := routeInput{name: "f", local: tc.given, process: tc.running, builtIn: tc.builtIn, unsynced: tc.unseen, hasCertificates: !tc.without, prefer: tc.prefer, samePackage: tc.same, allowDevelopment: tc.development, operation: tc.operation}
			if f.runsPackages = tc.packages != nil; f.runsPackages {
				f.packageState = func(p local.Package) local.State { return tc.packages[p.Image] }
			}
			if tc.function != "" {
				f.object = readFunction(parsed(t, tc.function))
			}
			for _, r := range tc.revisions {
				f.revisions = append(f.revisions, readRevision(parsed(t, r)))
			}
			got := routeFor(f)
			if !strings.Contains(got.Problem.Message, tc.says) || tc.says == "" && got.Problem.Message != "" {
				t.Errorf("says %q, not %q", got.Problem.Message, tc.says)
			}
			got.Problem.Message = ""
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestManagedElsewhere(t *testing.T) {
	cases := map[string]struct {
		object string
		want   bool
	}{
		"Nobody, if nobody says anything":                    {"{metadata: {name: f}}", false},
		"Nobody, if only we say something":                   {"{metadata: {name: f}, status: {conditions: [{type: Installed, status: 'True', reason: BuiltIn}]}}", false},
		"A package manager that unpacks it":                  {"{metadata: {name: f}, status: {conditions: [{type: Installed, status: 'False', reason: UnpackingPackage}]}}", true},
		"A package manager that has taken over what we said": {"{metadata: {name: f}, status: {conditions: [{type: Healthy, status: 'True', reason: BuiltIn}, {type: Installed, status: 'True', reason: ActivePackageRevision}]}}", true},
		"The owner of a revision":                            {"{metadata: {name: f, ownerReferences: [{apiVersion: pkg.crossplane.io/v1, kind: Function, name: f, uid: u, controller: true}]}}", true},
	}
	for name, tc := range cases {
		if got := readRevision(parsed(t, tc.object)).managedElsewhere; got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestWhatAPackageIsCalled(t *testing.T) {
	for image, want := range map[string]string{
		"xpkg.example.org/org/function-ready:v1.2.3":               "org-function-ready",
		"xpkg.example.org:5000/mirror/org/function-ready@sha256:0": "org-function-ready",
		"org/function-ready:v1@sha256:0":                           "org-function-ready",
		"function-ready:v1":                                        "",
		"":                                                         "",
	} {
		if got := builtin.PackageName(image); got != want {
			t.Errorf("%q: got %q, want %q", image, got, want)
		}
	}
}

func TestWhetherAPackageIsWhatIsBuiltIn(t *testing.T) {
	all := map[string]bool{}
	for name := range builtin.BuiltIn() {
		all[name] = true
	}
	cases := map[string]struct {
		builtIn, image string
		want           bool
	}{
		"By its name and its image":           {"function-auto-ready", "xpkg.crossplane.io/crossplane-contrib/function-auto-ready:v0.7.0", true},
		"By its image under another name":     {"crossplane-contrib-function-auto-ready", "example.org/mirror/crossplane-contrib/function-auto-ready:v0.7.0", true},
		"Another organisation's isn't":        {"function-auto-ready", "example.org/acme/function-auto-ready:v1", false},
		"Another function of that name isn't": {"function-auto-ready", "xpkg.crossplane.io/crossplane-contrib/function-patch-and-transform:v1", false},
		"Without a package nobody knows":      {"function-auto-ready", "", false},
	}
	for name, tc := range cases {
		active := readRevision(parsed(t, "{metadata: {name: f-1}, spec: {desiredState: Active, image: '"+tc.image+"'}}"))
		for _, f := range []routeInput{{object: &function{image: tc.image}}, {revisions: []revision{active}}} {
			if got := isSamePackage(f.image(), tc.builtIn, all); got != tc.want {
				t.Errorf("%s: %t", name, got)
			}
		}
	}
}

func TestLoopbackAddress(t *testing.T) {
	for target, want := range map[string]string{
		"localhost:9443": "127.0.0.1:9443", "127.0.0.1:1": "127.0.0.1:1", "[::1]:1": "[::1]:1", "dns:///localhost:1": "127.0.0.1:1",
		"dns:///unix:9443": "", "unix:9443": "", "unix:///run/x.sock": "", "passthrough:///unix:///run/x.sock": "", "dns://server/localhost:1": "",
		"localhost.example.org:1": "", "10.0.0.1:1": "", "127.1:1": "", "2130706433:1": "", "localhost": "", "": "",
	} {
		if got, ok := loopbackAddress(target); got != want || ok != (want != "") {
			t.Errorf("%s: got %q, %t", target, got, ok)
		}
	}
}

// TestACallThatFailsNamesWhatServesTheFunction has the places outside this process.
func TestACallThatFailsNamesWhatServesTheFunction(t *testing.T) {
	cases := map[string]struct {
		route Route
		want  string
	}{
		"a package": {
			Route{Backend: BackendPackage, Endpoint: pipeline.Endpoint{Target: "f.system:9443"}, FunctionRevision: "f-2"},
			"it is served by FunctionRevision f-2 at f.system:9443",
		},
		"an unhealthy package": {
			Route{Backend: BackendPackage, Endpoint: pipeline.Endpoint{Target: "f.system:9443"}, FunctionRevision: "f-2", PackageProblem: "no pod"},
			"it is served by FunctionRevision f-2 at f.system:9443, and its package is unhealthy: no pod",
		},
		"an address": {Route{Backend: BackendAddress, Endpoint: pipeline.Endpoint{Target: "127.0.0.1:9443"}}, "it is served at 127.0.0.1:9443 (--function)"},
		"a development runtime": {
			Route{Backend: BackendDevelopment, Endpoint: pipeline.Endpoint{Target: "passthrough:///127.0.0.1:1"}},
			"it is served at 127.0.0.1:1 (annotation render.crossplane.io/runtime-development-target of the Function)",
		},
		"one in this process": {Route{Backend: BackendBuiltIn}, ""},
	}
	for name, tc := range cases {
		if got := tc.route.servedBy(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestAFunctionIsReportedUnlessAPackageManagerDoes, for which the conditions of a revision are no sign: any client may have written them.
func TestAFunctionIsReportedUnlessAPackageManagerDoes(t *testing.T) {
	cases := map[string]struct {
		revision string
		want     bool
	}{
		"no revision":                     {"", false},
		"one with conditions of a client": {"{metadata: {name: f-1}, status: {conditions: [{type: RevisionHealthy, status: 'True', reason: Tested}]}}", false},
		"one that a controller owns":      {"{metadata: {name: f-1, ownerReferences: [{apiVersion: v1, kind: Function, name: f, uid: u, controller: true}]}}", true},
	}
	for name, tc := range cases {
		in := routeInput{object: &function{}}
		if tc.revision != "" {
			in.revisions = []revision{readRevision(parsed(t, tc.revision))}
		}
		if got := in.isManagedElsewhere(); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}

// TestInputsAreCheckedWhereAFunctionIsBuiltIn, unless a package that knows other inputs is to serve it again.
func TestInputsAreCheckedWhereAFunctionIsBuiltIn(t *testing.T) {
	packaged := []revision{{name: "f-2", active: true}}
	cases := map[string]struct {
		in   routeInput
		want bool
	}{
		"built in":                     {routeInput{builtIn: "f"}, true},
		"built in for its package":     {routeInput{builtIn: "f", revisions: packaged, prefer: PreferBuiltInAlways}, true},
		"for a package with a problem": {routeInput{builtIn: "f", revisions: packaged, prefer: PreferBuiltInNever}, false},
		"at an address":                {routeInput{builtIn: "f", local: &LocalFunction{Address: "127.0.0.1:1"}}, false},
		"not built in":                 {routeInput{}, false},
		"while functions are unknown":  {routeInput{builtIn: "f", unsynced: "not read"}, false},
	}
	for name, tc := range cases {
		if got := tc.in.isInputChecked(); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
}
