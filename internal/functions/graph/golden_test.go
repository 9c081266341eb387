package graph

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/functions/call"
	"github.com/espalier-dev/espalier/internal/functions/fieldpath"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
)

// TestGoldens reads testdata: input.yaml is what an author writes, xr.yaml the observed
// composite, observed.yaml and desired.yaml resources by their names, schemas.yaml the
// schemas of kinds, if the engine tells any, and cluster.yaml a list of what others keep.
// want-answer is what the function makes of it, once it has been given what it requires.
func TestGoldens(t *testing.T) {
	f := New()
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, a *golden.Archive) {
		got := toldOf(t, f, a.Input)
		if again := toldOf(t, New(), a.Input); got != again {
			t.Errorf("it isn't the same without memory:\n%s", cmp.Diff(got, again))
		}
		a.Got("answer", got)
	})
}

// settled calls a function until it has what it requires.
func settled(t *testing.T, f *Function, in map[string]string) (call.Response, int) {
	t.Helper()
	given := call.Given{}
	for calls := 1; ; calls++ {
		r := request(t, in)
		given.Typed = r.Given.Typed
		r.Given = given
		response := f.Run(r)
		before := given
		given = meet(t, in, response.Requirements)
		if slices.ContainsFunc(response.Results, func(r call.Result) bool { return r.Severity == call.Fatal }) || cmp.Equal(keys(before), keys(given)) {
			return response, calls
		}
		if calls > 5 {
			t.Fatalf("it keeps requiring something else: %v", response.Requirements)
		}
	}
}

func keys(g call.Given) []string {
	var out []string
	for key := range g.Resources {
		out = append(out, key)
	}
	for key := range g.Schemas {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// meet gives a function what it requires, as an engine does.
func meet(t *testing.T, in map[string]string, r call.Requirements) call.Given {
	t.Helper()
	given := call.Given{Resources: map[string][]map[string]any{}, Schemas: map[string]call.Schema{}}
	schemas := parsedYAML(t, in["schemas.yaml"])
	for key, kind := range r.Schemas {
		given.Schemas[key] = call.Schema{}
		if s, ok := schemas[kind.APIVersion+"/"+kind.Kind].(map[string]any); ok {
			given.Schemas[key] = call.Schema{Digest: object.Digest(s), Read: func() (map[string]any, error) { return s, nil }}
		}
	}
	all, _ := parsedYAML(t, "all:\n"+in["cluster.yaml"])["all"].([]any)
	for key, s := range r.Resources {
		given.Resources[key] = []map[string]any{}
		for _, item := range all {
			o := &unstructured.Unstructured{Object: item.(map[string]any)}
			named := o.GetNamespace() == s.Namespace && o.GetName() == s.Name
			if s.Labels != nil {
				named = (s.Namespace == "" || o.GetNamespace() == s.Namespace) && labels.SelectorFromSet(s.Labels).Matches(labels.Set(o.GetLabels()))
			}
			if o.GetAPIVersion() == s.APIVersion && o.GetKind() == s.Kind && named {
				given.Resources[key] = append(given.Resources[key], o.Object)
			}
		}
	}
	return given
}

func parsedYAML(t *testing.T, text string) map[string]any {
	t.Helper()
	var read map[string]any
	if err := yaml.Unmarshal([]byte(text), &read); err != nil {
		t.Fatal(err)
	}
	normal, err := fieldpath.JSON(read)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := normal.(map[string]any)
	return out
}

func request(t *testing.T, in map[string]string) call.Request {
	t.Helper()
	r := call.Request{
		Input:    parsedYAML(t, in["input.yaml"]),
		Observed: call.State{Composite: call.Resource{Object: parsedYAML(t, in["xr.yaml"])}, Resources: map[string]call.Resource{}},
		Desired:  call.State{Resources: map[string]call.Resource{}},
	}
	_, r.Given.Typed = in["schemas.yaml"]
	for name, o := range parsedYAML(t, in["observed.yaml"]) {
		r.Observed.Resources[name] = call.Resource{Object: o.(map[string]any)}
	}
	for name, o := range parsedYAML(t, in["desired.yaml"]) {
		if name == "composite" {
			r.Desired.Composite.Object = o.(map[string]any)
			continue
		}
		r.Desired.Resources[name] = call.Resource{Object: o.(map[string]any), Ready: call.True}
	}
	return r
}

// answered writes an answer as people read it.
func answered(t *testing.T, r call.Response, calls int) string {
	t.Helper()
	var b bytes.Buffer
	for _, result := range r.Results {
		b.WriteString([]string{"Warning: ", "Fatal: "}[result.Severity] + result.Message + "\n")
	}
	if b.Len() > 0 {
		b.WriteString("---\n")
	}
	ready := func(of call.Ready) string { return []string{"Unspecified", "True", "False"}[of] }
	resources := map[string]any{}
	for name, resource := range r.Desired.Resources {
		resources[name+" ("+ready(resource.Ready)+")"] = resource.Object
	}
	out := map[string]any{"calls": calls, "composite (" + ready(r.Desired.Composite.Ready) + ")": r.Desired.Composite.Object, "resources": resources}
	var conditions []string
	for _, c := range r.Conditions {
		conditions = append(conditions, c.Type+"="+[]string{"Unknown", "True", "False"}[c.Status]+" "+strings.TrimSpace(c.Reason+": "+c.Message))
	}
	if len(conditions) > 0 {
		out["conditions"] = conditions
	}
	required := keys(call.Given{Resources: emptied(r.Requirements.Resources)})
	if len(required) > 0 {
		out["requires"] = required
	}
	data, err := yaml.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	b.Write(data)
	return b.String()
}

func emptied(of map[string]call.Selector) map[string][]map[string]any {
	out := map[string][]map[string]any{}
	for key := range of {
		out[key] = nil
	}
	return out
}

func toldOf(t *testing.T, f *Function, in map[string]string) string {
	t.Helper()
	response, calls := settled(t, f, in)
	return answered(t, response, calls)
}
