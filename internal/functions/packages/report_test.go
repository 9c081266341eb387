package packages

import (
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

func TestWhatIsToldOfAFunction(t *testing.T) {
	cases := map[string]struct {
		place Place
		want  []string
	}{
		"A program that runs":            {Place{By: ByProgram}, []string{"Installed=True ActivePackageRevision", "Healthy=True HealthyPackageRevision"}},
		"A program that has ended":       {Place{By: ByProgram, Problem: Problem{Reason: NotRunning}}, []string{"Installed=True ActivePackageRevision", "Healthy=False UnhealthyPackageRevision"}},
		"An address":                     {Place{By: ByAddress}, []string{"Installed=True ActivePackageRevision", "Healthy=True HealthyPackageRevision"}},
		"One that is developed":          {Place{By: ByDevelopment, Endpoint: pipeline.Endpoint{Target: "x:1"}}, []string{"Installed=True ActivePackageRevision", "Healthy=True HealthyPackageRevision"}},
		"A revision that a person made":  {Place{By: ByPackage}, []string{"Installed=True ActivePackageRevision", "Healthy=True HealthyPackageRevision"}},
		"One that is built in":           {Place{By: BuiltIn}, []string{"Installed=True ActivePackageRevision", "Healthy=True HealthyPackageRevision"}},
		"One that nobody runs":           {nowhere(NoRuntime, ""), []string{"Installed=False NoPackageRuntime", "Healthy=False NoPackageRuntime"}},
		"Nothing before it is known":     {nowhere(Unseen, ""), nil},
		"One that has no endpoint (yet)": {nowhere(NoEndpoint, ""), []string{"Installed=True ActivePackageRevision", "Healthy=False UnhealthyPackageRevision"}},
		"One without a revision to use":  {nowhere(NoActiveRevision, ""), []string{"Installed=False InactivePackageRevision", "Healthy=False UnhealthyPackageRevision"}},
	}
	for name, tc := range cases {
		set := reportFunction(tc.place, &Given{Program: "/f"}).merge(nil, 3, time.Unix(0, 0))
		if diff := cmp.Diff(tc.want, short(set)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, c := range set {
			if c.ObservedGeneration != 3 {
				t.Errorf("%s: of generation %d", name, c.ObservedGeneration)
			}
			if !isOurs(c) || c.Message == "" {
				t.Errorf("%s: %s counts as somebody else's word", name, c.Type)
			}
		}
	}
}

func TestWhatIsToldOfARevision(t *testing.T) {
	cases := map[string]struct {
		revision revision
		place    Place
		want     string
	}{
		"One that isn't active":                          {revision{}, Place{By: BuiltIn}, "RevisionHealthy=True HealthyPackageRevision"},
		"One that somebody has said the endpoint of":     {revision{active: true, endpoint: "x:1"}, Place{By: ByPackage}, "RevisionHealthy=True HealthyPackageRevision"},
		"One that nobody serves":                         {revision{active: true}, nowhere(NoEndpoint, ""), "RevisionHealthy=False NoEndpoint"},
		"One whose function is served in another manner": {revision{active: true}, Place{By: BuiltIn}, "RevisionHealthy=True HealthyPackageRevision"},
	}
	for name, tc := range cases {
		set := reportRevision(tc.revision, tc.place).merge(nil, 1, time.Unix(0, 0))
		if diff := cmp.Diff([]string{tc.want}, short(set)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatWeSaidIsTakenBack(t *testing.T) {
	before := condition.Set{
		{Type: "Installed", Status: condition.True, Reason: "ActivePackageRevision"},
		{Type: "Healthy", Status: condition.False, Reason: NoRuntime},
		{Type: "RevisionHealthy", Status: condition.True, Reason: "HealthyPackageRevision", Message: "its function is served otherwise: BuiltIn"},
	}
	want := []v1alpha1.Condition{before[0]}
	if diff := cmp.Diff(want, []v1alpha1.Condition(reported{retract: true}.merge(before, 1, time.Unix(0, 0)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPackageManagersWordIsItsOwn(t *testing.T) {
	cases := map[string]struct {
		status map[string]any
		want   bool
	}{
		"nothing is said": {want: false},
		"we have said it": {map[string]any{"conditions": []any{
			map[string]any{"type": "Installed", "status": "True", "reason": "ActivePackageRevision", "message": "BuiltIn: it is part of this control plane"},
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
		if got := readFunction(o).foreign; got != tc.want {
			t.Errorf("%s: somebody else looks after it: %t", name, got)
		}
	}
}
