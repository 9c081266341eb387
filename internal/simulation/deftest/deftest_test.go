package deftest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/instance/plan"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/simulation/preview"
)

func parse(t *testing.T, text string) Object {
	t.Helper()
	o := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = o.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o.Object
}

func TestProblemsOfTestFilesAreReportedTogether(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no YAML":         {"a: [", "yaml:"},
		"unknown fields":  {"apiVersion: test.espalier.dev/v1alpha1\nkind: Test\nstep: []", `unknown field "step"`},
		"all of them":     {"apiVersion: v1\nkind: Test\nstep: []\nother: 1", `unknown field "other"` + "\n" + `unknown field "step"`},
		"beside others":   {"apiVersion: v1\nkind: Test\nstep: []", "steps: there must be one\n" + `unknown field "step"`},
		"another kind":    {"apiVersion: v1\nkind: Test\nsteps: [{}]", "apiVersion and kind must be test.espalier.dev/v1alpha1 and Test"},
		"no steps":        {"apiVersion: test.espalier.dev/v1alpha1\nkind: Test", "steps: there must be one"},
		"too many steps":  {"apiVersion: test.espalier.dev/v1alpha1\nkind: Test\nsteps: [" + strings.Repeat("{},", maxSteps) + "{}]", "there are 101"},
		"a nameless one":  {"apiVersion: test.espalier.dev/v1alpha1\nkind: Test\nsteps: [{apply: [{kind: A, apiVersion: v1}]}]", "steps[0].apply[0]: an object must have"},
		"two tests":       {"apiVersion: test.espalier.dev/v1alpha1\nkind: Test\nsteps: [{}]\n---\napiVersion: test.espalier.dev/v1alpha1\nkind: Test\nsteps: [{}]", "a file has one test, and this one has 2 documents"},
		"and another too": {"apiVersion: test.espalier.dev/v1alpha1\nkind: Test\nsteps: [{apply: [{kind: A, apiVersion: v1}], absent: [{}]}]", "steps[0].absent[0]: an object must have"},
	} {
		if _, err := Parse(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	got, err := Parse("# about the test\n---\napiVersion: test.espalier.dev/v1alpha1\nkind: Test\nsteps: [{name: first}, {}]\n---\n")
	if err != nil || got.Title(0) != "first" || got.Title(1) != "step 2" || got.HasExpectations() {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestExpectationsAreParts(t *testing.T) {
	const got = "{apiVersion: v1, kind: Thing, metadata: {name: a, namespace: prod, labels: {x: z}}, spec: {size: 2, on: true, list: [1, 2], named: [{name: a, v: 1}, {name: b, v: 2}]}, status: {conditions: [{type: Ready, status: 'False', message: why}]}}"
	const head = "{apiVersion: v1, kind: Thing, metadata: {name: a}, "
	for name, tc := range map[string]struct {
		expect string
		want   []string
	}{
		"nothing but existence":    {head + "}", nil},
		"fields":                   {head + "spec: {size: 2, on: true}}", nil},
		"a number in any form":     {head + "spec: {size: 2.0}}", nil},
		"another value":            {head + "spec: {size: 3}}", []string{"Thing prod/a: spec.size is 2, want 3"}},
		"another type":             {head + "spec: {size: {a: 1}}}", []string{`Thing prod/a: spec.size is 2, want {"a":1}`}},
		"an absent field":          {head + "spec: {color: red}}", []string{`Thing prod/a: spec.color is absent, want "red"`}},
		"a field that must not be": {head + "spec: {color: null}}", nil},
		"a list":                   {head + "spec: {list: [1, 3]}}", []string{"Thing prod/a: spec.list[1] is 2, want 3"}},
		"a shorter list":           {head + "spec: {list: [1]}}", []string{"Thing prod/a: spec.list is [1,2], want [1]"}},
		"items by name":            {head + "spec: {named: [{name: b, v: 2}]}}", nil},
		"an item that differs":     {head + "spec: {named: [{name: b, v: 3}]}}", []string{"Thing prod/a: spec.named[name=b].v is 2, want 3"}},
		"an item that is absent":   {head + "spec: {named: [{name: c}]}}", []string{"Thing prod/a: spec.named[name=c] is absent"}},
		"conditions by type":       {head + "status: {conditions: [{type: Ready, status: 'True'}]}}", []string{`Thing prod/a: status.conditions[type=Ready].status is "False", want "True"`}},
		"another namespace":        {"{apiVersion: v1, kind: Thing, metadata: {name: a, namespace: dev}}", []string{"Thing dev/a: does not exist"}},
	} {
		s := Step{Expect: []Object{parse(t, tc.expect)}}
		state := State{Objects: []*unstructured.Unstructured{{Object: parse(t, got)}}}
		if diff := cmp.Diff(tc.want, s.Check(state, "prod")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestNamespacesOfClusterScopedObjectsCountForNothing has an object of no namespace: the API server drops the one of a file.
func TestNamespacesOfClusterScopedObjectsCountForNothing(t *testing.T) {
	state := State{Objects: []*unstructured.Unstructured{{Object: parse(t, "{apiVersion: v1, kind: Node, metadata: {name: a}}")}}}
	for _, wanted := range []string{"{apiVersion: v1, kind: Node, metadata: {name: a}}", "{apiVersion: v1, kind: Node, metadata: {name: a, namespace: dev}}"} {
		if diff := cmp.Diff([]string(nil), Step{Expect: []Object{parse(t, wanted)}}.Check(state, "prod")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", wanted, diff)
		}
	}
}

func TestAbsentObjectsWaitsAndProblems(t *testing.T) {
	app := &unstructured.Unstructured{Object: parse(t, "{apiVersion: kro.run/v1alpha1, kind: App, metadata: {name: web, namespace: prod}}")}
	state := State{
		Objects:  []*unstructured.Unstructured{app},
		Rendered: []preview.Rendered{{Instance: app, Waits: []preview.Wait{{Node: "region[a]", Message: "waits for service.spec.clusterIP"}}}},
		Problems: []preview.Problem{{Object: "App prod/web", Reason: "NotOwned", Message: "x is somebody else's"}},
	}
	for name, tc := range map[string]struct {
		step Step
		want []string
	}{
		"all as expected":             {Step{Waits: []Wait{{Instance: "App prod/web", Node: "region", For: "clusterIP"}}, Problems: []string{"NotOwned"}}, nil},
		"an object that must not be":  {Step{Absent: []Object{app.Object}, Problems: []string{"NotOwned"}}, []string{"App prod/web: exists"}},
		"another wait":                {Step{Waits: []Wait{{Node: "web"}}, Problems: []string{"NotOwned"}}, []string{`node web does not wait for ""; what waits: region[a] of App prod/web waits for service.spec.clusterIP`}},
		"of another instance":         {Step{Waits: []Wait{{Instance: "App dev/web", Node: "region"}}, Problems: []string{"NotOwned"}}, []string{`node region does not wait for ""; nothing waits`}},
		"an unexpected problem":       {Step{}, []string{"problem: App prod/web: NotOwned: x is somebody else's"}},
		"two parts of one problem":    {Step{Problems: []string{"NotOwned", "somebody"}}, nil},
		"a problem that is not there": {Step{Problems: []string{"NotOwned", "Forbidden"}}, []string{`there is no problem with "Forbidden"`}},
	} {
		if diff := cmp.Diff(tc.want, tc.step.Check(state, "prod")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	text, err := state.Text()
	if err != nil || !strings.Contains(text, "# region[a]: not known yet: it waits for") || !strings.HasSuffix(text, "# problem: App prod/web: NotOwned: x is somebody else's\n") {
		t.Errorf("the text is %v\n%s", err, text)
	}
}

func TestCoverageIsMerged(t *testing.T) {
	key := object.Key{Group: "kro.run", Kind: "App", Name: "a"}
	kind := schema.GroupKind{Group: "kro.run", Kind: "App"}
	var first, second Coverage
	first.Add(key, plan.Facts{}, plan.Plan{Steps: []plan.Step{{Node: "web", Action: plan.Create}, {Node: "dns", Action: plan.Skip}, {Node: "late", Action: plan.Defer}, {Node: "region[a]", Action: plan.Keep}}})
	second.Add(key, plan.Facts{}, plan.Plan{Steps: []plan.Step{{Node: "dns", Action: plan.Keep}, {Node: "region[a]", Action: plan.Keep}, {Node: "region[b]", Action: plan.Keep}}})
	first.Merge(second)
	got := map[string]reached{}
	for id, n := range first.kinds[kind] {
		got[id] = *n
	}
	want := map[string]reached{"web": {existed: true, items: 1}, "dns": {existed: true, skipped: true, items: 1}, "late": {}, "region": {existed: true, items: 2}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(reached{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text := CoverageText([]KindCoverage{{Kind: "App", Reached: 3, Total: 4, Missing: []string{"late never exists"}}, {Kind: "Aaa"}})
	if want := "coverage: Aaa: 0 of 0 branches (100%)\ncoverage: App: 3 of 4 branches (75%)\n  never reached: late never exists\n"; text != want {
		t.Errorf("got %q", text)
	}
}

func TestJUnit(t *testing.T) {
	got, err := JUnit([]Report{{File: "a.test.yaml", Name: "good", Seconds: 1.5}, {File: "b.test.yaml", Name: "bad <\x00>", Failures: []Failure{{"created", "it's ]]> \"wrong\""}, {"later", "too"}}}})
	want := `<?xml version="1.0" encoding="UTF-8"?>
<testsuites>
  <testsuite name="espalier" tests="2" failures="1">
    <testcase classname="a.test.yaml" name="good" time="1.5"></testcase>
    <testcase classname="b.test.yaml" name="bad &lt;�&gt;" time="0">
      <failure message="created: it&#39;s ]]&gt; &#34;wrong&#34;"><![CDATA[created: it's ]]]]><![CDATA[> "wrong"
later: too]]></failure>
    </testcase>
  </testsuite>
</testsuites>
`
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, cmp.Diff(want, string(got)))
	}
}
