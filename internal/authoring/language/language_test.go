package language

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
)

const networkFile = `apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: network}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Network
    spec:
      cidr: string | required=true
      zones: "[]string"
    status:
      firstSubnet: ${subnets[0].metadata.name}
  resources:
  - id: subnets
    forEach:
    - zone: ${schema.spec.zones}
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}-${zone}"}
`

const siteFile = `# The site.
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: site}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Site
    types:
      Size:
        width: integer
    spec:
      replicas: integer | default=1
      size: Size
    status:
      subnet: ${network.status.firstSubnet}
  resources:
  - id: network
    template:
      apiVersion: kro.run/v1alpha1
      kind: Network
      metadata: {name: "${schema.metadata.name}"}
      spec:
        cidr: 10.0.0.0/16
  - id: web
    waitFor:
      network: {fields: [status.firstSubnet]}
    template:
      apiVersion: apps/v1
      kind: Deployment
      metadata:
        name: ${schema.metadata.name}
      spec:
        replicas: ${schema.spec.replicas}
        strategy: {type: Recreate}
        selector: {matchLabels: {a: b}}
        template:
          metadata: {labels: {a: b}}
          spec:
            containers:
            - name: web
              image: nginx
              env:
              - name: SUBNET
                value: ä ${network.status.firstSubnet}
---
apiVersion: kro.run/v1alpha1
kind: Network
metadata: {name: main, namespace: default}
spec:
  cidr: 10.0.0.0/16
`

func files(more map[string]string) map[string]*Text {
	out := map[string]*Text{"network.yaml": NewText(networkFile), "site.yaml": NewText(siteFile)}
	for name, text := range more {
		out[name] = NewText(text)
	}
	return out
}

// change replaces a part of the site, with the cursor at ‸ or | in the replacement.
func change(t *testing.T, old, with string) (*Text, Position) {
	t.Helper()
	return changeOf(t, siteFile, old, with)
}

func changeOf(t *testing.T, file, old, with string) (*Text, Position) {
	t.Helper()
	at, mark := strings.Index(file, old), "‸"
	if !strings.Contains(with, mark) {
		mark = "|"
	}
	cursor := strings.Index(with, mark)
	if at < 0 || cursor < 0 {
		t.Fatalf("%q in %q", old, with)
	}
	text := NewText(file[:at] + with[:cursor] + with[cursor+len(mark):] + file[at+len(old):])
	return text, text.Position(at + cursor)
}

func TestFilesWithoutProblems(t *testing.T) {
	c := Check(nil, files(nil), Options{})
	for name := range c.files {
		if got := c.Diagnostics(name); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestCompletions(t *testing.T) {
	c := Check(nil, files(nil), Options{})
	for _, test := range []struct {
		reason, old, with string
		has, hasNone      []string
		replaces          string
	}{
		{"ids and the instance", "${schema.spec.replicas}", "${|}", []string{"network:Network of kro.run/v1alpha1", "web:Deployment of apps/v1", "schema:object", "string:string(T) → string, T: CIDR, IP, bool, bytes, double, duration, int, timestamp, uint"}, []string{"zone"}, ""},
		{"fields of the instance", "${schema.spec.replicas}", "${schema.spec.re|}", []string{"replicas:int", "size:object"}, []string{"schema"}, "re"},
		{"fields through a type of the definition", "${schema.spec.replicas}", "${schema.spec.size.|}", []string{"width:int"}, nil, ""},
		{"fields of an instance of another file", "${network.status.firstSubnet}\n  resources", "${network.status.f|\n  resources", []string{"firstSubnet:string"}, nil, "f"},
		{"fields of a Deployment, with the expression unfinished", "${schema.spec.replicas}", "${web.sp|", []string{"spec:object", "status:object", "metadata:object"}, nil, "sp"},
		{"in quotes that are not closed", `"${schema.metadata.name}"}
      spec:
        cidr`, `"${schema.meta|
      spec:
        cidr`, []string{"metadata:object", "spec:object"}, nil, "meta"},
		{"behind escaped quotes", "${schema.spec.replicas}", `"${size(\"a\") + schema.spec.|}"`, []string{"replicas:int"}, nil, ""},
		{"after an emoji", "ä ${network.status.firstSubnet}", "😀 ${network.status.fi|}", []string{"firstSubnet:string"}, nil, "fi"},
		{"in a block", "${schema.spec.replicas}", "|\n          ${schema\n            .spec.re‸}", []string{"replicas:int"}, nil, "re"},
		{"fields of a template's kind", "        strategy: {type: Recreate}\n", "        str|\n        paused: true\n", []string{"strategy:object", "minReadySeconds:integer"}, []string{"paused", "template"}, "str"},
		{"fields on a line that is only begun", "        strategy: {type: Recreate}\n", "        |\n", []string{"strategy:object", "minReadySeconds:integer"}, []string{"replicas", "selector"}, ""},
		{"fields of a resource", "    waitFor:\n      network: {fields: [status.firstSubnet]}\n", "    in|\n", []string{"includeWhen:list of string", "readyWhen:list of string"}, []string{"id", "template"}, "in"},
		{"fields of an item", "            - name: web\n", "            - na|\n", []string{"name:string", "ports:list of object"}, []string{"image"}, "na"},
		{"ids in waitFor", "      network: {fields: [status.firstSubnet]}\n", "      ne|\n", []string{"network:", "web:"}, nil, "ne"},
		{"enumerated values", "        strategy: {type: Recreate}\n", "        strategy:\n          type: Re|\n", []string{"Recreate:", "RollingUpdate:"}, nil, "Re"},
		{"kinds of a version", "      kind: Deployment", "      kind: De|", []string{"Deployment:", "StatefulSet:"}, []string{"ConfigMap"}, "De"},
		{"versions", "      apiVersion: apps/v1", "      apiVersion: ap|", []string{"apps/v1:", "kro.run/v1alpha1:"}, nil, "ap"},
		{"types of SimpleSchema", "      size: Size", "      size: |", []string{"string:a string of SimpleSchema", "Size:a type of this definition", "[]string:"}, nil, ""},
		{"markers", "integer | default=1", "integer | mi‸", []string{"minimum:marker of integer, number", "required:marker"}, nil, "mi"},
		{"no fields where a value stands", "10.0.0.0/16\n  - id", "10.0|\n  - id", nil, []string{"cidr"}, ""},
	} {
		text, at := change(t, test.old, test.with)
		var got []string
		for _, i := range c.Complete("site.yaml", text, at) {
			got = append(got, i.Label+":"+i.Detail)
			if from, to := text.Offset(i.Range.Start), text.Offset(i.Range.End); text.text[from:to] != test.replaces {
				t.Errorf("%s: %s replaces %q, want %q", test.reason, i.Label, text.text[from:to], test.replaces)
			}
		}
		for _, want := range test.has {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %s is not in %q", test.reason, want, got)
			}
		}
		for _, not := range test.hasNone {
			if slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, not+":") }) {
				t.Errorf("%s: %s is in %q", test.reason, not, got)
			}
		}
	}
}

func TestCompletionsOfIterators(t *testing.T) {
	c := Check(nil, files(nil), Options{})
	text, at := changeOf(t, networkFile, `-${zone}"`, `-${zo|}"`)
	got := c.Complete("network.yaml", text, at)
	if !slices.ContainsFunc(got, func(i Item) bool { return i.Label == "zone" && i.Detail == "string" }) {
		t.Errorf("%v", got)
	}
}

func TestHovers(t *testing.T) {
	c := Check(nil, files(nil), Options{})
	for _, test := range []struct{ old, with, want string }{
		{"${schema.spec.replicas}", "${schema.spec.repl|icas}", "```\nreplicas: int\n```"},
		{"ä ${network.status.firstSubnet}", "ä ${net|work.status.firstSubnet}", "The resource network, a Network of kro.run/v1alpha1."},
		{"${schema.spec.replicas}", "${web.spec.pau|sed}", "Indicates that the deployment is paused"},
		{"${schema.spec.replicas}", "${st|ring(1)}", "string(T) → string"},
		{"        replicas: ${", "        repl|icas: ${", "Number of desired pods"},
		{"kind: Deployment", "kind: Deploy|ment", "Deployment of apps/v1, namespaced"},
		{"    waitFor:", "    wait|For:", "waitFor: map of object"},
		{"image: nginx", "image: ngi|nx", ""},
		{"# The site.", "# The| site.", ""},
	} {
		text, at := change(t, test.old, test.with)
		got, _ := c.Hover("site.yaml", text, at)
		if !strings.Contains(got, test.want) || test.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", test.with, got, test.want)
		}
	}
}

func TestDefinitions(t *testing.T) {
	c := Check(nil, files(map[string]string{"crd.yaml": thingCRD}), Options{})
	for _, test := range []struct{ reason, old, with, want string }{
		{"a resource", "ä ${network.status.firstSubnet}", "ä ${net|work.status.firstSubnet}", "site.yaml:19 network"},
		{"a field of the instance", "${schema.spec.replicas}", "${schema.spec.repl|icas}", "site.yaml:14 integer | default=1"},
		{"a field of another definition's instance", "ä ${network.status.firstSubnet}", "ä ${network.status.first|Subnet}", "network.yaml:12 ${subnets[0].metadata.name}"},
		{"the kind of a template", "      kind: Network", "      kind: Net|work", "network.yaml:7 Network"},
		{"the kind of an instance", "kind: Network\nmetadata: {name: main", "kind: Net|work\nmetadata: {name: main", "network.yaml:7 Network"},
		{"a field of an instance", "  cidr: 10.0.0.0/16\n", "  ci|dr: 10.0.0.0/16\n", "network.yaml:9 string | required=true"},
		{"a field of a CustomResourceDefinition", "default}\nspec:\n  cidr: 10.0.0.0/16\n", "default}\n---\napiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec: {si|ze: 1}\n", "crd.yaml:15 size"},
		{"a kind of Kubernetes", "kind: Deployment", "kind: Deploy|ment", ""},
	} {
		text, at := change(t, test.old, test.with)
		got := ""
		for _, l := range c.Definition("site.yaml", text, at) {
			of := text
			if l.Name != "site.yaml" {
				of = c.files[l.Name].text
			}
			got = fmt.Sprintf("%s:%d %s", l.Name, l.Range.Start.Line+1, of.text[of.Offset(l.Range.Start):of.Offset(l.Range.End)])
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", test.reason, got, test.want)
		}
	}
}

const graphFile = `apiVersion: kro.run/v1alpha1
kind: Graph
metadata: {name: shop, namespace: apps}
spec:
  nodes:
  - id: shared
    def: {app: shop}
  - id: back
    graph:
      nodes:
      - id: database
        template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${shared.app}"}}
      - id: zones
        forEach: [{zone: "${[shared.app]}"}]
        waitFor:
          database: {fields: [data.a]}
        template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${zone}"}, data: {of: "${database.metadata.name}"}}
  - id: front
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: front}, data: {of: "${back.database.metadata.name}"}}
`

// TestGraphs answers within Graphs, and within the graphs in them.
func TestGraphs(t *testing.T) {
	c := Check(nil, files(map[string]string{"graph.yaml": graphFile}), Options{})
	if got := c.Diagnostics("graph.yaml"); len(got) > 0 {
		t.Fatal(got)
	}
	for _, test := range []struct{ old, with, has, hasNone string }{
		{"${database.metadata.name}", "${|}", "database:ConfigMap of v1", "back:"},
		{"${database.metadata.name}", "${|}", "shared:object", "back:"},
		{"${database.metadata.name}", "${database.metadata.na|}", "name:string", "zone:"},
		{"${zone}", "${|}", "zone:string", "back:"},
		{"${back.database.metadata.name}", "${|}", "back:graph", "database:"},
		{"${back.database.metadata.name}", "${back.|}", "database:object", "shared:"},
		{"          database: {fields", "          da|\n          x: {fields", "database:", "back:"},
		{"        waitFor:\n", "        wait|\n        x:\n", "readyWhen:list of string", ""},
	} {
		text, at := changeOf(t, graphFile, test.old, test.with)
		var got []string
		for _, i := range c.Complete("graph.yaml", text, at) {
			got = append(got, i.Label+":"+i.Detail)
		}
		isUnwanted := func(s string) bool { return test.hasNone != "" && strings.HasPrefix(s, test.hasNone) }
		if !slices.Contains(got, test.has) || slices.ContainsFunc(got, isUnwanted) {
			t.Errorf("%s: %q, want %s and no %s", test.with, got, test.has, test.hasNone)
		}
	}
	text, at := changeOf(t, graphFile, "${back.database.metadata.name}", "${back.data|base.metadata.name}")
	if l := c.Definition("graph.yaml", text, at); len(l) != 1 || l[0].Range.Start.Line != 10 {
		t.Errorf("the node of a nested graph is at %v", l)
	}
	text, at = changeOf(t, graphFile, "${zone}", "${zo|ne}")
	if l := c.Definition("graph.yaml", text, at); len(l) != 1 || l[0].Range.Start.Line != 13 {
		t.Errorf("the iterator is at %v", l)
	}
	text, at = changeOf(t, graphFile, "${database.metadata.name}", "${data|base.metadata.name}")
	if got, _ := c.Hover("graph.yaml", text, at); !strings.Contains(got, "a ConfigMap of v1") {
		t.Errorf("hover: %q", got)
	}
}

const thingCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {size: {type: integer}}}}
`

func TestDiagnosticsHaveUTF16Ranges(t *testing.T) {
	text, _ := change(t, "ä ${network.status.firstSubnet}", "😀 ${network.status.firstSubnett}|")
	c := Check(nil, map[string]*Text{"network.yaml": NewText(networkFile), "site.yaml": text}, Options{})
	got := c.Diagnostics("site.yaml")
	if len(got) != 1 || got[0].Severity != Error || !strings.Contains(got[0].Message, `did you mean "firstSubnet"?`) {
		t.Fatalf("%v", got)
	}
	r := got[0].Range
	line := strings.Split(text.text, "\n")[r.Start.Line]
	if part := text.text[text.Offset(r.Start):text.Offset(r.End)]; part != "firstSubnett" {
		t.Errorf("%q in %q", part, line)
	}
	if units := strings.Index(line, "firstSubnett") - 2; r.Start.Character != units { // the emoji has 4 bytes and 2 code units
		t.Errorf("character %d, want %d", r.Start.Character, units)
	}
}

// TestSyntaxErrorsKeepKinds checks that a text that is being written does not make problems of others.
func TestSyntaxErrorsKeepKinds(t *testing.T) {
	c := Check(nil, files(nil), Options{})
	broken, _ := changeOf(t, networkFile, "kind: Network", "kind: [Network|")
	next := files(nil)
	next["network.yaml"] = broken
	c = Check(c, next, Options{})
	if got := c.Diagnostics("network.yaml"); len(got) != 1 || got[0].Range.Start.Line == 0 {
		t.Errorf("%v", got)
	}
	if got := c.Diagnostics("site.yaml"); len(got) > 0 {
		t.Errorf("%v", got)
	}
	if got := Check(c, files(nil), Options{}).Diagnostics("network.yaml"); len(got) > 0 {
		t.Errorf("mended: %v", got)
	}
}

func TestOtherTextsHaveNoProblems(t *testing.T) {
	c := Check(nil, map[string]*Text{"compose.yaml": NewText("services:\n  web: {image: nginx}\n"), "large.yaml": NewText("kind: x\n" + strings.Repeat("#", MaxTextBytes))}, Options{})
	if got := c.Diagnostics("compose.yaml"); len(got) > 0 {
		t.Errorf("%v", got)
	}
	if got := c.Diagnostics("large.yaml"); len(got) != 1 || !strings.Contains(got[0].Message, "is not checked") {
		t.Errorf("%v", got)
	}
}

// TestAPanicIsAProblemOfTheChangedText checks that a compiler that panics is reported, and that all other texts stay checked.
func TestAPanicIsAProblemOfTheChangedText(t *testing.T) {
	o := Options{check: func(all []*workspace.File, o workspace.Options) *workspace.Workspace {
		for _, f := range all {
			for _, d := range f.Documents() {
				if d.Object.GetName() == "boom" {
					panic("boom")
				}
			}
		}
		return workspace.New(all, o)
	}}
	c := Check(nil, files(nil), o)
	boom := files(map[string]string{"boom.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: boom}\n"})
	boom["network.yaml"] = c.files["network.yaml"].text
	boom["site.yaml"] = c.files["site.yaml"].text
	c = Check(c, boom, o)
	if got := c.Diagnostics("boom.yaml"); len(got) != 1 || !strings.Contains(got[0].Message, "panic with a string") {
		t.Errorf("%v", got)
	}
	if got := c.Diagnostics("site.yaml"); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// TestEveryPositionHasAnAnswer asks everything at every position of a text, and of texts that are cut off there: what is replaced or explained is at the
// position, and what is defined is in a file.
func TestEveryPositionHasAnAnswer(t *testing.T) {
	c := Check(nil, files(nil), Options{})
	var completed, explained, defined int
	for at := 0; at < len(siteFile); at += 7 {
		for _, text := range []*Text{NewText(siteFile), NewText(siteFile[:at])} {
			p := text.Position(at)
			for _, item := range c.Complete("site.yaml", text, p) {
				completed++
				if begin, end := text.Offset(item.Range.Start), text.Offset(item.Range.End); item.Label == "" || begin > text.Offset(p) || end < text.Offset(p) {
					t.Errorf("at %d, %q would replace bytes %d to %d", at, item.Label, begin, end)
				}
			}
			if markdown, of := c.Hover("site.yaml", text, p); markdown != "" {
				explained++
				if begin, end := text.Offset(of.Start), text.Offset(of.End); begin > text.Offset(p) || end < text.Offset(p) {
					t.Errorf("at %d, bytes %d to %d are explained", at, begin, end)
				}
			}
			for _, l := range c.Definition("site.yaml", text, p) {
				defined++
				if f := c.files[l.Name]; f == nil || f.text.Offset(l.Range.End) <= f.text.Offset(l.Range.Start) {
					t.Errorf("at %d, %s %v is no place", at, l.Name, l.Range)
				}
			}
		}
	}
	if completed == 0 || explained == 0 || defined == 0 {
		t.Errorf("there are %d completions, %d explanations and %d definitions", completed, explained, defined)
	}
}
