package functions_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/program/functions"
)

// TestInvalidInputs has inputs with which every composite fails, and some with which only a part does.
func TestInvalidInputs(t *testing.T) {
	const (
		patches = "kind: Resources\napiVersion: pt.fn.crossplane.io/v1beta1\n"
		base    = "base: {apiVersion: v1, kind: ConfigMap}"
	)
	cases := map[string]struct {
		function, input string
		want            []string
	}{
		"a valid one": {"function-patch-and-transform", patches + "resources: [{name: a, " + base + ", patches: [{fromFieldPath: spec.a, toFieldPath: data.a}]}]", nil},
		"a type with a typo, and an unknown field": {
			"function-patch-and-transform", patches + "resources: [{name: a, " + base + ", patches: [{type: FromCompositeFieldpath, fromFieldPath: spec.a}], patchess: []}]",
			[]string{
				`resources[0].patches[0].type: cannot be "FromCompositeFieldpath"; expected FromCompositeFieldPath, ToCompositeFieldPath, CombineFromComposite, CombineToComposite, FromEnvironmentFieldPath, ToEnvironmentFieldPath, CombineFromEnvironment, CombineToEnvironment, PatchSet; did you mean "FromCompositeFieldPath"?`,
				`resources[0].patchess: no such field; did you mean "patches"?`,
			},
		},
		"a resource that no step produces": {"function-patch-and-transform", patches + "resources: [{name: a}]", []string{"resources[0].base: is not set, and no earlier step produces the resource"}},
		"a patch that cannot be parsed": {
			"function-patch-and-transform", patches + "resources: [{name: a, " + base + ", patches: [{fromFieldPath: 'spec.a['}]}]",
			[]string{"resources[0].patches[0].fromFieldPath: cannot parse path \"spec.a[\": unterminated '[' at position 6"},
		},
		"the same in a patch set that is not used, and in a readiness check": {
			"function-patch-and-transform", patches + "patchSets: [{name: unused, patches: [{fromFieldPath: 'spec.a['}]}]\n" +
				"resources: [{name: a, " + base + ", readinessChecks: [{type: NonEmpty, fieldPath: 'status.a['}]}]", nil,
		},
		"a field of another type":    {"function-auto-ready", "{apiVersion: autoready.fn.crossplane.io/v1beta1, kind: Input, ttl: true}", []string{"ttl: must be a string, not a boolean"}},
		"no input where none needed": {"function-auto-ready", "{}", nil},
		"an unknown type of a source": {
			"function-environment-configs", "{apiVersion: environmentconfigs.fn.crossplane.io/v1beta1, kind: Input, spec: {environmentConfigs: [{type: Refrence, ref: {name: a}}]}}",
			[]string{`spec.environmentConfigs[0].type: cannot be "Refrence"; expected Reference, Selector; did you mean "Reference"?`},
		},
		"an expression that reads a node that is not there": {
			"function-graph", "{apiVersion: graph.fn.espalier.dev/v1alpha1, kind: Graph, spec: {resources: [{id: a, template: {apiVersion: v1, kind: ConfigMap, data: {x: '${b.data.x}'}}}]}}",
			[]string{`spec.resources[0].template.data.x: in "b.data.x" at 1: references unknown identifiers: [b]; did you mean "a"?`},
		},
		"a template with a syntax error": {
			"crossplane-contrib-function-go-templating", "{apiVersion: gotemplating.fn.crossplane.io/v1beta1, kind: GoTemplate, source: Inline, inline: {template: \"a: 1\\nb: {{ if }}\"}}",
			[]string{`inline.template: in "a: 1\nb: {{ if }}" at line 2:4: missing value for if`},
		},
		"templates in files, which only a program reads": {
			"function-go-templating", "{apiVersion: gotemplating.fn.crossplane.io/v1beta1, kind: GoTemplate, source: FileSystem, fileSystem: {dirPath: /templates}}",
			[]string{"source: FileSystem is not available in the built-in function, which reads no files: use Inline, or Environment with an EnvironmentConfig, or serve the function as a program of its own"},
		},
		"an answer that is none":            {"crossplane-contrib-function-dummy", "{response: no}", []string{"response: is not set, or is not an object"}},
		"the input of a function elsewhere": {"function-kcl", "{anything: goes}", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var input map[string]any
			if err := yaml.Unmarshal([]byte(tc.input), &input); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range functions.Invalid(tc.function, input, true, schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "App"}) {
				got = append(got, d.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
