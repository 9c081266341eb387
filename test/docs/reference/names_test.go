package reference

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/schema"
)

// constants are the string constants of a package whose names, or whose types, match.
func constants(t *testing.T, dir string, matches func(name, typ string) bool) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no code in %s: %v", dir, err)
	}
	out := map[string]string{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST {
				continue
			}
			for _, s := range decl.Specs {
				spec, _ := s.(*ast.ValueSpec)
				typ, _ := spec.Type.(*ast.Ident)
				for i, name := range spec.Names {
					typeName := ""
					if typ != nil {
						typeName = typ.Name
					}
					if i >= len(spec.Values) || !matches(name.Name, typeName) {
						continue
					}
					if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
						if text, err := strconv.Unquote(lit.Value); err == nil {
							out[name.Name] = text
						}
					}
				}
			}
		}
	}
	return out
}

// listed are the spans of code in the first cells of the tables below some headings of a page.
func listed(p *page, headings ...string) []string {
	var out []string
	for _, r := range p.rows() {
		if slices.Contains(headings, r.heading) {
			out = append(out, codes(r.cells[0])...)
		}
	}
	return out
}

// TestEveryNameIsOnThePage compares the labels, annotations, conditions and reasons of instances and
// definitions with those on the pages.
func TestEveryNameIsOnThePage(t *testing.T) {
	key := regexp.MustCompile(`(Annotation|Label)$`)
	of := func(want string) func(string, string) bool {
		return func(_, typ string) bool { return typ == want }
	}
	reason := regexp.MustCompile(`^(kind|revision|rollout|rollingOut|secretNot|awaiting)`)
	reasons := func(name, _ string) bool { return reason.MatchString(name) }
	for _, list := range []struct {
		page, dir string
		matches   func(name, typ string) bool
		headings  []string
		but       []string
	}{
		{"instance.md", "api/v1alpha1", func(name, _ string) bool { return key.MatchString(name) }, []string{"Annotations that people set", "Annotations and labels that the engine sets"}, nil},
		{"instance.md", "internal/instance/plan", of("Reason"), []string{"Reasons"}, nil},
		{"instance.md", "internal/instance/report", of("Reason"), []string{"Reasons of blockers"}, nil},
		{"instance.md", "api/v1alpha1", of("InstanceState"), []string{"States"}, nil},
		{"definition.md", "api/v1alpha1", of("DefinitionState"), []string{"States"}, nil},
		{"definition.md", "internal/graph/definition", reasons, []string{"GraphRevisionsResolved", "KindReady"}, nil},
		{"definition.md", "internal/graph/kind", of("Reason"), []string{"KindReady"}, nil},
		{"definition.md", "internal/serving", of("Reason"), []string{"KindReady"}, nil},
		{"activation.md", "sdk/managed/resource", of("ActivationState"), []string{"States"}, nil},
		{"activation.md", "sdk/managed/resource", of("ActivationReason"), []string{"Reasons"}, nil},
		{"definition.md", "internal/serving/revision", of("Reason"), []string{"GraphRevisionsResolved"}, []string{"", "NewestRevision"}},
	} {
		t.Run(list.page+" "+list.dir, func(t *testing.T) {
			found := constants(t, list.dir, list.matches)
			if len(found) == 0 {
				t.Fatal("there is nothing to list")
			}
			shown := listed(load(t, list.page), list.headings...)
			for name, text := range found {
				if !slices.Contains(shown, text) && !slices.Contains(list.but, text) {
					t.Errorf("%s lacks %s (%s.%s) under %v", list.page, text, list.dir, name, list.headings)
				}
			}
		})
	}
	instances := constants(t, "api/v1alpha1", func(name, typ string) bool {
		return typ == "" && regexp.MustCompile(`^(Instance|Definition)[A-Z]`).MatchString(name) && !key.MatchString(name) && name != "InstanceManager"
	})
	for name, text := range instances {
		page := "instance.md"
		if strings.HasPrefix(name, "Definition") {
			page = "definition.md"
		}
		if !slices.Contains(listed(load(t, page), "Conditions"), text) {
			t.Errorf("%s lacks the condition %s", page, text)
		}
	}
}

// TestConditionsOfCompositesAreOnThePage looks for every condition and reason of the composition
// dialect.
func TestConditionsOfCompositesAreOnThePage(t *testing.T) {
	var shown []string
	for _, line := range load(t, "composition.md").lines {
		shown = append(shown, codes(line)...)
	}
	found := constants(t, "api/apiextensions/v1", func(name, _ string) bool {
		return strings.HasPrefix(name, "Type") || strings.HasPrefix(name, "Reason")
	})
	if len(found) == 0 {
		t.Fatal("there is nothing to list")
	}
	for name, text := range found {
		if !slices.Contains(shown, text) {
			t.Errorf("composition.md lacks %s (%s)", text, name)
		}
	}
}

// TestReservedIDsAreCurrent compares the names that no resource can have.
func TestReservedIDsAreCurrent(t *testing.T) {
	var out []string
	for _, id := range graph.ReservedIDs() {
		out = append(out, code(id))
	}
	load(t, "nodes.md").generated(t, "reserved ids", strings.Join(out, " "))
}

// TestEveryFieldOfAResourceIsOnThePage compares the fields of a resource with the first table of
// nodes.md.
func TestEveryFieldOfAResourceIsOnThePage(t *testing.T) {
	shown := listed(load(t, "nodes.md"), "Resources")
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[v1alpha1.Resource]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields = append(fields, name)
		}
	}
	compare(t, "nodes.md", fields, shown)
}

// TestEveryMarkerIsOnThePage compares the types and markers of SimpleSchema with simpleschema.md.
func TestEveryMarkerIsOnThePage(t *testing.T) {
	p := load(t, "simpleschema.md")
	var markers []string
	on := map[string][]string{}
	for _, m := range schema.Markers() {
		markers = append(markers, m.Name)
		on[m.Name] = m.Types
	}
	compare(t, "simpleschema.md", markers, listed(p, "Markers"))
	for _, r := range p.rows() {
		if names := codes(r.cells[0]); r.heading == "Markers" && len(names) == 1 && !slices.Equal(codes(r.cells[1]), on[names[0]]) {
			t.Errorf("simpleschema.md:%d: %s stands on %v", r.line+1, names[0], on[names[0]])
		}
	}
	shown := listed(p, "Types")
	for name := range schema.Types() {
		if !slices.Contains(shown, name) {
			t.Errorf("simpleschema.md lacks the type %s", name)
		}
	}
}

// compare reports what only one of two lists has.
func compare(t *testing.T, page string, there, shown []string) {
	t.Helper()
	for _, name := range there {
		if !slices.Contains(shown, name) {
			t.Errorf("%s lacks %s", page, name)
		}
	}
	for _, name := range shown {
		if !slices.Contains(there, name) {
			t.Errorf("%s has %s, which there is not", page, name)
		}
	}
}
