package admission

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

const widgets = `
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            x-kubernetes-validations: [{rule: "self.size >= oldSelf.size", message: "cannot shrink"}, {rule: "self.size != 13"}]
            properties:
              size: {type: integer, maximum: 20}
              color: {type: string, default: red}
              tags: {type: array, items: {type: string}, x-kubernetes-list-type: set}
`

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	o := &unstructured.Unstructured{}
	if err == nil {
		err = o.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestAdmissionActsAsTheAPIServer(t *testing.T) {
	var c apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(widgets), &c); err != nil {
		t.Fatal(err)
	}
	if _, err := New(&c, "v2"); err == nil {
		t.Error("a version without a schema has an admission")
	}
	a, err := New(&c, "v1")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ spec, old, want, refused string }{
		"defaults are set":                   {spec: "{size: 1}", want: "{size: 1, color: red}"},
		"unknown fields are removed":         {spec: "{size: 1, color: blue, weight: 3}", want: "{size: 1, color: blue}"},
		"a null counts as absent":            {spec: "{size: 1, color: null}", want: "{size: 1, color: red}"},
		"a required field":                   {spec: "{}", refused: "spec.size"},
		"a bound":                            {spec: "{size: 21}", refused: "spec.size"},
		"a set with duplicates":              {spec: "{size: 1, tags: [a, a]}", refused: "spec.tags[1]"},
		"a rule":                             {spec: "{size: 13}", refused: "spec"},
		"a transition rule at an update":     {spec: "{size: 1}", old: "{size: 2}", refused: "spec"},
		"no transition rule at a creation":   {spec: "{size: 2}", want: "{size: 2, color: red}"},
		"an update that the rules allow":     {spec: "{size: 3}", old: "{size: 2}", want: "{size: 3, color: red}"},
		"a bound that the old one broke too": {spec: "{size: 22, color: blue}", old: "{size: 22}", want: "{size: 22, color: blue}"},
	} {
		t.Run(name, func(t *testing.T) {
			const head = "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w}\nspec: "
			var old *unstructured.Unstructured
			if tc.old != "" {
				old = parse(t, head+tc.old)
			}
			got, problems := a.Admit(parse(t, head+tc.spec), old)
			if tc.refused != "" {
				if len(problems) != 1 || problems[0].Field != tc.refused {
					t.Errorf("got %v, want one of %s", problems, tc.refused)
				}
				return
			}
			if want := parse(t, head+tc.want); len(problems) > 0 || !equalJSON(t, want, got) {
				t.Errorf("got %v, %v", got.Object, problems)
			}
		})
	}
}

func TestUnknownFieldsAreListed(t *testing.T) {
	var c apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal([]byte(widgets), &c); err != nil {
		t.Fatal(err)
	}
	a, err := New(&c, "v1")
	if err != nil {
		t.Fatal(err)
	}
	o := parse(t, "{apiVersion: example.org/v1, kind: Widget, metadata: {name: w}, spec: {size: 1, weight: 2}, more: {}}")
	if got := a.UnknownFields(o); len(got) != 2 || got[0] != "more" || got[1] != "spec.weight" || o.Object["more"] == nil {
		t.Errorf("got %q", got)
	}
}

func equalJSON(t *testing.T, a, b *unstructured.Unstructured) bool {
	t.Helper()
	left, errA := a.MarshalJSON()
	right, errB := b.MarshalJSON()
	return errA == nil && errB == nil && string(left) == string(right)
}

func TestDefinitionsAreCheckedAsByTheAPIServer(t *testing.T) {
	cases := map[string]struct{ old, new, want string }{
		"A valid one":               {"", "", ""},
		"A rule that is not CEL":    {"self.size != 13", "self.sise != 13", "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[1].rule"},
		"A rule that is too costly": {"self.size != 13", "self.tags.all(a, self.tags.all(b, self.tags.all(c, a + b != c)))", "spec.versions[0].schema.openAPIV3Schema.properties[spec].x-kubernetes-validations[1].rule"},
		"A column of no type":       {"    served: true", "    served: true\n    additionalPrinterColumns: [{name: a, type: wrong, jsonPath: .spec}]", "spec.versions[0].additionalPrinterColumns[0].type"},
		"A group without a dot":     {"group: example.org", "group: example", "spec.group"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var c apiextensionsv1.CustomResourceDefinition
			if err := yaml.Unmarshal([]byte(strings.Replace(widgets, tc.old, tc.new, 1)), &c); err != nil {
				t.Fatal(err)
			}
			c.Name = c.Spec.Names.Plural + "." + c.Spec.Group
			problems := CheckDefinition(&c)
			found := slices.ContainsFunc(problems, func(p *field.Error) bool { return p.Field == tc.want })
			if found != (tc.want != "") || tc.want == "" && len(problems) > 0 {
				t.Errorf("got %v, want %q", problems, tc.want)
			}
		})
	}
}
