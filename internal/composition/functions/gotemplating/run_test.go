package gotemplating

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

func inputOf(template string) map[string]any {
	return map[string]any{"apiVersion": APIVersion, "kind": Kind, "source": inline, "inline": map[string]any{"template": template}}
}

func with(in map[string]any, field string, value any) map[string]any {
	in[field] = value
	return in
}

func run(t *testing.T, in map[string]any, annotations map[string]any) *fnv1.RunFunctionResponse {
	t.Helper()
	raw, err := structpb.NewStruct(in)
	if err != nil {
		t.Fatal(err)
	}
	xr, err := structpb.NewStruct(map[string]any{"apiVersion": "example.org/v1", "kind": "Shop", "metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := Run(t.Context(), &fnv1.RunFunctionRequest{Input: raw, Observed: &fnv1.State{Composite: &fnv1.Resource{Resource: xr}}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCheck(t *testing.T) {
	cases := map[string]struct {
		in              map[string]any
		problems, notes []string
	}{
		"valid": {in: inputOf("a: {{ .b }}")},
		"a syntax error has its line, and the column of its action": {
			in:       inputOf("a: b\n\nc: {{ if }}\n"),
			problems: []string{`inline.template: in "a: b\n\nc: {{ if }}\n" at line 3:4: missing value for if`},
		},
		"so does one in a list of templates": {
			in:       map[string]any{"apiVersion": APIVersion, "kind": Kind, "source": inline, "inline": map[string]any{"templates": []any{"a\nb", "c\n{{ d }}"}}},
			problems: []string{`inline.templates[1]: in "c\n{{ d }}" at line 2:1: function "d" not defined`},
		},
		"and one with other delimiters": {
			in:       with(inputOf("[[ x ]]"), "delims", map[string]any{"left": "[[", "right": "]]"}),
			problems: []string{`inline.template: in "[[ x ]]" at 1: function "x" not defined`},
		},
		"all problems at once": {
			in: with(with(map[string]any{"apiVersion": APIVersion, "kind": Kind, "source": "inline", "inlined": "x"}, "ttl", "soon"), "options", []any{"missingkey=eror"}),
			problems: []string{
				`inlined: no such field; did you mean "inline"?`,
				`options[0]: cannot be "missingkey=eror"; expected missingkey=default, missingkey=invalid, missingkey=zero, missingkey=error; did you mean "missingkey=error"?`,
				`source: cannot be "inline"; expected Inline, Environment, FileSystem; did you mean "Inline"?`,
				`ttl: "soon" is not a duration`,
			},
		},
		"a directory": {
			in:    map[string]any{"apiVersion": APIVersion, "kind": Kind, "source": fileSystem, "fileSystem": map[string]any{"dirPath": "/templates"}},
			notes: []string{"source: " + errFileSystem.Error()},
		},
		"another kind": {in: with(inputOf("a"), "kind", "Template"), notes: []string{`kind: is Template of "gotemplating.fn.crossplane.io/v1beta1", not GoTemplate of gotemplating.fn.crossplane.io/v1beta1`}},
		"nothing":      {problems: []string{"the input is missing; expected GoTemplate of gotemplating.fn.crossplane.io/v1beta1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var problems, notes []string
			p, n := Check(tc.in)
			for _, d := range p {
				problems = append(problems, d.String())
			}
			for _, d := range n {
				notes = append(notes, d.String())
			}
			if diff := cmp.Diff([][]string{tc.problems, tc.notes}, [][]string{problems, notes}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := Invalid(cases["a directory"].in); len(got) != 1 {
		t.Errorf("the built-in function cannot run with a directory, got %v", got)
	}
}

func TestErrors(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations: {gotemplating.fn.crossplane.io/composition-resource-name: a}\n"
	cases := map[string]struct{ template, want string }{
		"an error of a template has its line and column": {
			"\na: {{ .observed.composite.resource.kind.x }}",
			`cannot execute the templates: template: manifests:2:15: executing "manifests" at <.observed.composite.resource.kind.x>: can't evaluate field x in type interface {}`,
		},
		"an error in the output has its line, without its value": {
			head + "---\n" + head + "data:\n  password: geheim: x\n",
			`cannot decode the objects: line 11 of the output (document 2, line 6) near "password:" is not valid YAML: mapping values are not allowed in this context`,
		},
		"an object without a kind has its line": {
			head + "---\n\napiVersion: v1\n", `cannot decode the objects: document 2 (line 6) of the output has no kind`,
		},
		"an object without a name is named by its kind": {
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}", "ConfigMap settings has no annotation gotemplating.fn.crossplane.io/composition-resource-name",
		},
		"an annotation that YAML reads as a boolean": {
			strings.Replace(head, "{", "{enabled: yes, ", 1), "ConfigMap of resource a: the annotation enabled is not a string; quote its value",
		},
		"a readiness": {
			strings.Replace(head, "{", "{gotemplating.fn.crossplane.io/ready: Ready, ", 1),
			`ConfigMap of resource a: the annotation gotemplating.fn.crossplane.io/ready cannot be "Ready"; expected True, False or Unspecified`,
		},
		"an unknown object for the function": {
			"apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1\nkind: Conditions",
			"Conditions of meta.gotemplating.fn.crossplane.io/v1alpha1 is unknown; expected CompositeConnectionDetails, ClaimConditions, Context or ExtraResources",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			results := run(t, inputOf(tc.template), nil).GetResults()
			if len(results) != 1 || results[0].GetSeverity() != fnv1.Severity_SEVERITY_FATAL {
				t.Fatalf("want one fatal result, got %v", results)
			}
			if diff := cmp.Diff(tc.want, results[0].GetMessage()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTTL(t *testing.T) {
	annotation := map[string]any{ttlAnnotation: "3m"}
	cases := map[string]struct {
		in          map[string]any
		annotations map[string]any
		want        time.Duration
	}{
		"without a clock, the response is valid until something changes": {in: inputOf(`{{/* nothing */}}`)},
		"a clock goes on":                   {in: inputOf(`{{$_ := now}}`), want: time.Minute},
		"in a block of another template":    {in: inputOf(`{{define "a"}}{{if .x}}{{$x := (date "2006" now)}}{{end}}{{end}}`), want: time.Minute},
		"the author decides":                {in: with(inputOf(`{{$_ := now}}`), "ttl", "10s"), want: 10 * time.Second},
		"the composite decides":             {in: with(inputOf(``+"{{/* */}}"), "ttl", "10s"), annotations: annotation, want: 3 * time.Minute},
		"what is no duration has no effect": {in: with(inputOf(`{{/* */}}`), "ttl", "10s"), annotations: map[string]any{ttlAnnotation: "soon"}, want: 10 * time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := run(t, tc.in, tc.annotations)
			if got := out.GetMeta().GetTtl().AsDuration(); got != tc.want || len(out.GetResults()) > 0 {
				t.Errorf("want %s, got %s, %v", tc.want, got, out.GetResults())
			}
		})
	}
}

// TestRandomValues are new in each run, and a template keeps the first one.
func TestRandomValues(t *testing.T) {
	text := func() string {
		out := run(t, inputOf("apiVersion: v1\nkind: ConfigMap\nmetadata: {annotations: {"+nameAnnotation+": a}}\ndata: {password: {{ randAlphaNum 30 }}, of: {{ randomChoice \"a\" \"a\" }}}"), nil)
		return out.GetDesired().GetResources()["a"].GetResource().GetFields()["data"].String()
	}
	if a, b := text(), text(); a == b || !strings.Contains(a, "password") {
		t.Errorf("got %s, then %s", a, b)
	}
}
