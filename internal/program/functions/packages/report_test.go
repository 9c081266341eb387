package packages

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/composition/pipeline"
	"github.com/espalier-dev/espalier/internal/condition"
)

// short is a condition as a word.
func short(all condition.Set) []string {
	var out []string
	for _, c := range all {
		out = append(out, c.Type+"="+string(c.Status)+" "+c.Reason)
	}
	return out
}

func TestReportFunction(t *testing.T) {
	cases := map[string]struct {
		place Route
		want  []string
	}{
		"A program that runs":           {Route{Backend: BackendProgram}, []string{"Installed=True ActivePackageRevision", "Healthy=True HealthyPackageRevision", "Ready=True Ready"}},
		"A program that has ended":      {Route{Backend: BackendProgram, Problem: Problem{Reason: ProgramNotRunning}}, []string{"Installed=True ActivePackageRevision", "Healthy=False UnhealthyPackageRevision", "Ready=False UnhealthyPackageRevision", "Reconciling=True UnhealthyPackageRevision"}},
		"An address":                    {Route{Backend: BackendAddress}, []string{"Installed=True ActivePackageRevision", "Healthy=True HealthyPackageRevision", "Ready=True Ready"}},
		"One that is developed":         {Route{Backend: BackendDevelopment, Endpoint: pipeline.Endpoint{Target: "x:1"}}, []string{"Installed=True ActivePackageRevision", "Healthy=True HealthyPackageRevision", "Ready=True Ready"}},
		"A revision that a person made": {Route{Backend: BackendPackage}, []string{"Installed=True ActivePackageRevision", "Healthy=True HealthyPackageRevision", "Ready=True Ready"}},
		"One that is built in":          {Route{Backend: BackendBuiltIn}, []string{"Installed=True ActivePackageRevision", "Healthy=True HealthyPackageRevision", "Ready=True Ready"}},
		"An endpoint of its users":      {Route{Backend: BackendEndpoint}, []string{"Installed=True ActivePackageRevision", "Healthy=True HealthyPackageRevision", "Ready=True Ready"}},
		"A package that runs here":      {Route{Backend: BackendLocalPackage}, []string{"Installed=True ActivePackageRevision", "Healthy=True HealthyPackageRevision", "Ready=True Ready"}},
		"A package that is fetched":     {Route{Backend: BackendLocalPackage, Problem: Problem{Reason: PackageNotInstalled, Waits: true}}, []string{"Installed=False UnpackingPackage", "Healthy=False UnhealthyPackageRevision", "Ready=False UnpackingPackage", "Reconciling=True UnpackingPackage"}},
		"A package that is refused":     {Route{Backend: BackendLocalPackage, Problem: Problem{Reason: PackageNotInstalled}}, []string{"Installed=False UnpackingPackage", "Healthy=False UnhealthyPackageRevision", "Ready=False UnpackingPackage", "Stalled=True UnpackingPackage"}},
		"A package that has ended":      {Route{Backend: BackendLocalPackage, Problem: Problem{Reason: ProgramNotRunning, Waits: true}}, []string{"Installed=True ActivePackageRevision", "Healthy=False UnhealthyPackageRevision", "Ready=False UnhealthyPackageRevision", "Reconciling=True UnhealthyPackageRevision"}},
		"One that nobody runs":          {noRoute(NoPackageRuntime, "nobody runs it"), []string{"Installed=False NoPackageRuntime", "Healthy=False NoPackageRuntime", "Ready=False NoPackageRuntime", "Stalled=True NoPackageRuntime"}},
		"Nothing before it is known":    {noRoute(FunctionsNotKnown, ""), nil},
		"One that has no endpoint":      {noRoute(NoEndpoint, ""), []string{"Installed=True ActivePackageRevision", "Healthy=False UnhealthyPackageRevision", "Ready=False UnhealthyPackageRevision", "Stalled=True UnhealthyPackageRevision"}},
		"One without a revision to use": {noRoute(NoActiveRevision, ""), []string{"Installed=False InactivePackageRevision", "Healthy=False UnhealthyPackageRevision", "Ready=False InactivePackageRevision", "Stalled=True InactivePackageRevision"}},
	}
	for name, tc := range cases {
		set := reportFunction(tc.place, &LocalFunction{Program: "/f"}).merge(nil, 3, time.Unix(0, 0))
		if diff := cmp.Diff(tc.want, short(set)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, c := range set {
			if strings.HasPrefix(c.Message, c.Reason+":") {
				t.Errorf("%s: the message repeats the reason: %s", name, c.Message)
			}
			if c.ObservedGeneration != 3 {
				t.Errorf("%s: of generation %d", name, c.ObservedGeneration)
			}
			if !isOwnCondition(c) || c.Message == "" {
				t.Errorf("%s: %s counts as somebody else's word", name, c.Type)
			}
		}
	}
}

// TestADevelopedFunctionIsReportedByItsAddress and not by the target of the gRPC library.
func TestADevelopedFunctionIsReportedByItsAddress(t *testing.T) {
	place := Route{Backend: BackendDevelopment, Endpoint: pipeline.Endpoint{Target: "passthrough:///127.0.0.1:9443", Insecure: true}}
	if got := reportFunction(place, nil).conditions[0].Message; !strings.HasPrefix(got, "Development: calls go to 127.0.0.1:9443 without TLS") {
		t.Error(got)
	}
}

func TestReportRevision(t *testing.T) {
	cases := map[string]struct {
		revision revision
		place    Route
		want     []string
	}{
		"One that isn't active":                          {revision{}, Route{Backend: BackendBuiltIn}, []string{"RevisionHealthy=True HealthyPackageRevision", "Ready=True Ready"}},
		"One that somebody has said the endpoint of":     {revision{active: true, endpoint: "x:1"}, Route{Backend: BackendPackage}, []string{"RevisionHealthy=True HealthyPackageRevision", "Ready=True Ready"}},
		"One that nobody serves":                         {revision{active: true}, noRoute(NoEndpoint, ""), []string{"RevisionHealthy=False NoEndpoint", "Ready=False NoEndpoint", "Stalled=True NoEndpoint"}},
		"One whose function is served in another manner": {revision{active: true}, Route{Backend: BackendBuiltIn}, []string{"RevisionHealthy=True HealthyPackageRevision", "Ready=True Ready"}},
	}
	for name, tc := range cases {
		set := reportRevision(tc.revision, tc.place).merge(nil, 1, time.Unix(0, 0))
		if diff := cmp.Diff(tc.want, short(set)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatWeSaidIsTakenBack(t *testing.T) {
	before := condition.Set{
		{Type: "Installed", Status: condition.True, Reason: "ActivePackageRevision"},
		{Type: "Healthy", Status: condition.False, Reason: NoPackageRuntime},
		{Type: "RevisionHealthy", Status: condition.True, Reason: "HealthyPackageRevision", Message: "its function is served by another backend: BuiltIn"},
	}
	want := []v1alpha1.Condition{before[0]}
	if diff := cmp.Diff(want, []v1alpha1.Condition(conditionReport{retract: true}.merge(before, 1, time.Unix(0, 0)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConditionsOfAPackageManagerStay(t *testing.T) {
	cases := map[string]struct {
		status map[string]any
		want   bool
	}{
		"nothing is said": {want: false},
		"we have said it": {map[string]any{"conditions": []any{
			map[string]any{"type": "Installed", "status": "True", "reason": "ActivePackageRevision", "message": "BuiltIn: it is built into this control plane"},
		}}, false},
		"a package manager has": {map[string]any{"conditions": []any{
			map[string]any{"type": "Installed", "status": "True", "reason": "ActivePackageRevision"},
		}}, true},
		"a package manager is about to": {map[string]any{"conditions": []any{
			map[string]any{"type": "Installed", "status": "False", "reason": "UnpackingPackage", "message": "no such image"},
		}}, true},
		"a package manager has noted the newest revision": {map[string]any{"currentRevision": "f-1", "conditions": []any{
			map[string]any{"type": "Healthy", "status": "False", "reason": "UnhealthyPackageRevision", "message": "crashes"},
		}}, true},
	}
	for name, tc := range cases {
		o := &unstructured.Unstructured{Object: map[string]any{"status": tc.status}}
		if got := readFunction(o).managedElsewhere; got != tc.want {
			t.Errorf("%s: somebody else looks after it: %t", name, got)
		}
	}
}

// TestAReportIsMadeForTheObjectThatIsWritten: the registry still knows a revision of before a package manager wrote its conditions.
func TestAReportIsMadeForTheObjectThatIsWritten(t *testing.T) {
	c := &Registry{
		synced:    map[string]bool{FunctionKind.Kind: true, RevisionKind.Kind: true},
		functions: map[string]*function{"f": {}}, revisions: map[string]revision{"f-1": {name: "f-1", function: "f"}},
	}
	f := parsed(t, "{metadata: {name: f}, status: {conditions: [{type: Installed, status: 'False', reason: UnpackingPackage}]}}")
	if !c.reportFunction(f).retract {
		t.Error("the Function is reported")
	}
	r := parsed(t, "{metadata: {name: f-1, labels: {pkg.crossplane.io/package: f}}, status: {conditions: [{type: RuntimeHealthy, status: 'False', reason: UnhealthyPackageRevision}]}}")
	if !c.reportRevision(r).retract {
		t.Error("the FunctionRevision is reported")
	}
}
