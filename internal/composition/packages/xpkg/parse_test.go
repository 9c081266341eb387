package xpkg

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	configuration = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {name: platform}\n"
	composition   = "apiVersion: apiextensions.crossplane.io/v1\nkind: Composition\nmetadata: {name: network}\n"
	crd           = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.org}\n"
	graph         = "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: webapp}\n"
	marked        = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Configuration\nmetadata: {name: platform, annotations: {espalier.dev/graphs: \"true\"}}\n"
)

func meta(kind, spec string) string {
	return "apiVersion: meta.pkg.crossplane.io/v1\nkind: " + kind + "\nmetadata: {name: it}\nspec: " + spec + "\n"
}

// TestProblems parses streams. Warnings begin with "warning: ".
func TestProblems(t *testing.T) {
	cases := map[string]struct {
		stream string
		want   []string
	}{
		"a configuration":                    {configuration + "---\n" + composition, nil},
		"the metadata may be anywhere":       {composition + "---\n" + configuration, nil},
		"empty documents and comments":       {"---\n# nothing\n---\n\n" + configuration + "...\n---\n" + composition + "---\n", nil},
		"a separator with a comment":         {configuration + "--- # the network\n" + composition, nil},
		"an older version":                   {strings.Replace(configuration, "/v1\n", "/v1alpha1\n", 1), nil},
		"capabilities and a range":           {meta("Function", `{capabilities: [composition], crossplane: {version: ">=v2.0.0-0"}}`), nil},
		"the kinds of a function's inputs":   {meta("Function", "{}") + "---\n" + crd, nil},
		"graph definitions, with the mark":   {marked + "---\n" + graph, nil},
		"dependencies in both forms":         {meta("Configuration", `{dependsOn: [{provider: a.example.org/b, version: ">=1"}, {apiVersion: pkg.crossplane.io/v1, kind: Function, package: a.example.org/c, version: "`+digest+`"}]}`), nil},
		"graph definitions, without it":      {configuration + "---\n" + graph, []string{`package.yaml:5: ResourceGraphDefinition webapp: graph definitions need the annotation espalier.dev/graphs: "true" on the metadata, because Crossplane cannot read a package with them`}},
		"the mark with another value":        {strings.Replace(marked, `"true"`, `"yes"`, 1), []string{`warning: package.yaml:1: Configuration platform: the annotation espalier.dev/graphs has no effect: it needs the value "true" and a Configuration`}},
		"no metadata":                        {composition, []string{"package:1: it has no metadata: an object of meta.pkg.crossplane.io/v1 with the kind Configuration, Function or Provider, usually in crossplane.yaml"}},
		"two of them":                        {configuration + "---\n" + configuration, []string{"package.yaml:5: Configuration platform: a package has one metadata object, and there is one in package.yaml:1 already"}},
		"another kind of package":            {meta("Bundle", "{}"), []string{"package.yaml:1: Bundle it: the kind of a package is Configuration, Function or Provider"}},
		"a version of the metadata to come":  {strings.Replace(configuration, "/v1\n", "/v3\n", 1), []string{"package.yaml:1: Configuration platform: there is no version v3 of meta.pkg.crossplane.io; use v1"}},
		"a kind that no package contains":    {configuration + "---\n\n# data\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: data}\n", []string{"package.yaml:7: ConfigMap data: a package cannot contain ConfigMap of v1; a Configuration installs CompositeResourceDefinition, Composition, CronOperation, ManagedResourceActivationPolicy, Operation, ResourceGraphDefinition, WatchOperation"}},
		"a version of a kind to come":        {configuration + "---\n" + strings.Replace(composition, "/v1\n", "/v9\n", 1), []string{"package.yaml:5: Composition network: a package cannot contain version v9 of it; use v1"}},
		"a kind of another type of package":  {configuration + "---\n" + crd, []string{"warning: package.yaml:5: CustomResourceDefinition things.example.org: a Configuration does not install it; only a Provider or a Function does"}},
		"a kind that is read for nothing":    {configuration + "---\napiVersion: apiextensions.crossplane.io/v1\nkind: CompositionRevision\nmetadata: {name: network-1}\n", []string{"warning: package.yaml:5: CompositionRevision network-1: no package installs objects of this kind"}},
		"an object twice":                    {configuration + "---\n" + composition + "---\n" + composition, []string{"warning: package.yaml:9: Composition network: it is already in package.yaml:5"}},
		"an object without a name":           {configuration + "---\napiVersion: apiextensions.crossplane.io/v1\nkind: Composition\n", []string{"package.yaml:5: Composition: it has no name"}},
		"a document that is no object":       {configuration + "---\n- a\n- b\n", []string{"package.yaml:5: a document must be an object with apiVersion and kind"}},
		"a document without a kind":          {configuration + "---\na: 1\n", []string{"package.yaml:5: it has no apiVersion or no kind"}},
		"YAML that cannot be read":           {configuration + "---\napiVersion: v1\n  kind: A\n", []string{"package.yaml:6: mapping values are not allowed in this context"}},
		"a key twice is read as the last":    {configuration + "spec: {}\nspec: {}\n", []string{`warning: package.yaml:5: the key "spec" is already in line 4`}},
		"a field that does not exist":        {meta("Configuration", "{dependOn: []}"), []string{`warning: package.yaml:1: Configuration it: unknown field "spec.dependOn": it has no effect`}},
		"a field with another type":          {meta("Configuration", "{dependsOn: 1}"), []string{"package.yaml:1: Configuration it: json: cannot unmarshal number into Go struct field Spec.spec.dependsOn of type []v1.Dependency"}},
		"a range that cannot be read":        {meta("Provider", "{crossplane: {version: two}}"), []string{`package.yaml:1: Provider it: spec.crossplane: "two" is not a range of versions, such as ">=1.2.0 <2": improper constraint: "two"`}},
		"a dependency on nothing":            {meta("Provider", `{dependsOn: [{version: ">=1"}]}`), []string{"package.yaml:1: Provider it: spec.dependsOn[0]: it names no package: use provider, configuration or function, or apiVersion, kind and package"}},
		"half a dependency":                  {meta("Provider", `{dependsOn: [{kind: Function, version: ">=1"}]}`), []string{"package.yaml:1: Provider it: spec.dependsOn[0]: apiVersion, kind and package belong together"}},
		"a dependency without a version":     {meta("Provider", `{dependsOn: [{function: a.example.org/b}]}`), []string{`package.yaml:1: Provider it: spec.dependsOn[0]: it has no version; ">=0.0.0" accepts every release`}},
		"a dependency without a registry":    {meta("Provider", `{dependsOn: [{function: team/b, version: ">=1"}]}`), []string{`package.yaml:1: Provider it: spec.dependsOn[0]: the reference "team/b": it must begin with a registry and have a path, as in registry.example.org/platform/network:v1.2.0`}},
		"a dependency with a tag":            {meta("Provider", `{dependsOn: [{function: "a.example.org/b:v1", version: ">=1"}]}`), []string{"warning: package.yaml:1: Provider it: spec.dependsOn[0]: the v1 of the reference does not count: version does"}},
		"a dependency in two forms":          {meta("Provider", `{dependsOn: [{apiVersion: v1, kind: A, package: a.example.org/b, function: a.example.org/c, version: ">=1"}]}`), []string{"warning: package.yaml:1: Provider it: spec.dependsOn[0]: only package counts, not function"}},
		"values that are nested very deeply": {configuration + "---\n" + composition + "spec: " + strings.Repeat("[", 300) + strings.Repeat("]", 300) + "\n", []string{"package.yaml:5: Composition network: its values are nested deeper than 256 levels"}},
		"aliases that stand for very much":   {configuration + "---\n" + bomb(), []string{"package.yaml:5: its YAML aliases make the document too large"}},
		"all problems at once": {composition + "---\nkind: [\n---\n" + crd, []string{
			"package:1: it has no metadata: an object of meta.pkg.crossplane.io/v1 with the kind Configuration, Function or Provider, usually in crossplane.yaml",
			"package.yaml:5: did not find expected node content",
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems := Parse(File{"package.yaml", tc.stream})
			var got []string
			for _, p := range problems {
				text := p.String()
				if p.Warning {
					text = "warning: " + text
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if blocks := Errors(problems, false) != nil; blocks != strings.Contains("\n"+strings.Join(got, "\n"), "\npackage") {
				t.Errorf("it cannot be installed: %t", blocks)
			}
		})
	}
}

func bomb() string {
	text := "a0: &a0 " + strings.Repeat("x", 1000) + "\n"
	for i := 1; i <= 9; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return text
}

func TestDependenciesHaveOneForm(t *testing.T) {
	pkg, problems := Parse(File{"crossplane.yaml", meta("Configuration", `
  dependsOn:
  - {provider: a.example.org/aws, version: ">=1"}
  - {configuration: a.example.org/base, version: v1.2.3}
  - {function: "a.example.org:5000/ready", version: `+digest+`}
  - {apiVersion: pkg.crossplane.io/v1beta1, kind: Function, package: a.example.org/go, version: "^1"}`)})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []Dependency{
		{"pkg.crossplane.io/v1", "Provider", "a.example.org/aws", ">=1"},
		{"pkg.crossplane.io/v1", "Configuration", "a.example.org/base", "v1.2.3"},
		{"pkg.crossplane.io/v1", "Function", "a.example.org:5000/ready", digest},
		{"pkg.crossplane.io/v1beta1", "Function", "a.example.org/go", "^1"},
	}
	if diff := cmp.Diff(want, pkg.Dependencies); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	many := strings.Repeat("---\na: 1\n", 5000)
	if _, problems := Parse(File{"package.yaml", many}); len(problems) != maxProblems || !strings.Contains(problems[maxProblems-1].Message, "4902 more problems") {
		t.Errorf("%d problems, the last is %v", len(problems), problems[len(problems)-1])
	}
	_, problems := Parse(File{"package.yaml", strings.Repeat("---\na: {}\n", maxDocuments+2)})
	if !strings.Contains(fmt.Sprint(problems), "more problems") {
		t.Errorf("got %v", problems)
	}
	tooMany := configuration + strings.Repeat("---\n"+composition, maxDocuments)
	pkg, problems := Parse(File{"package.yaml", tooMany})
	if len(pkg.Objects) != maxDocuments-1 || Errors(problems, false) == nil {
		t.Errorf("%d objects, %d problems", len(pkg.Objects), len(problems))
	}
}

func TestInstalls(t *testing.T) {
	for name, tc := range map[string]struct {
		stream string
		want   []bool
	}{
		"a configuration installs what it may contain": {configuration + "---\n" + composition + "---\n" + crd, []bool{true, false}},
		"a provider installs its kinds":                {meta("Provider", "{}") + "---\n" + composition + "---\n" + crd, []bool{false, true}},
		"a function installs nothing":                  {meta("Function", "{}") + "---\n" + crd, []bool{false}},
		"graph definitions need the mark":              {configuration + "---\n" + graph, []bool{false}},
		"with it, they are installed":                  {marked + "---\n" + graph, []bool{true}},
	} {
		t.Run(name, func(t *testing.T) {
			pkg, _ := Parse(File{"package.yaml", tc.stream})
			var got []bool
			for _, o := range pkg.Objects {
				got = append(got, pkg.Installs(o.GroupVersionKind()))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(configuration + "---\n" + composition)
	f.Add("--- {\n...\n--- # x\n- \n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range func() []Problem { _, p := Parse(File{"package.yaml", text}); return p }() {
			if lines := strings.Count(text, "\n") + 1; p.Line < 1 || p.Line > lines {
				t.Errorf("a problem is in line %d of %d: %s", p.Line, lines, p)
			}
		}
	})
}
