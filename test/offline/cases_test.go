package offline

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/internal/simulation"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

// testCase are definitions and instances.
type testCase struct {
	name    string
	objects []*unstructured.Unstructured
}

// folders are those with definitions and instances in all files.
var folders = []string{
	"../../examples/eks-with-vpc", "../../examples/store", "../../examples/tested", "../../examples/widgets",
	"../../cmd/espalier/cli/testdata/documented/files/platform",
}

// cases are all examples and goldens of the repository that have definitions, and those of testdata.
func cases(t *testing.T) []testCase {
	t.Helper()
	var out []testCase
	add := func(name string, texts ...string) {
		c := testCase{name: name}
		for _, text := range texts {
			for _, o := range testkit.Parse(t, text) {
				if o.GetKind() != "Test" {
					c.objects = append(c.objects, o)
				}
			}
		}
		out = append(out, c)
	}
	for _, dir := range folders {
		add("example-"+filepath.Base(dir), read(t, filepath.Join(dir, "*.yaml"))...)
	}
	for _, a := range golden.Read(t, "../../internal/graph/testdata/*.txtar") {
		if a.Input["definition.yaml"] != "" && a.Input["world.yaml"] != "" {
			out = append(out, fromGolden(t, a))
		}
	}
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		add(strings.TrimSuffix(filepath.Base(path), ".yaml"), read(t, path)...)
	}
	return out
}

func read(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files match %s: %v", pattern, err)
	}
	var out []string
	for _, path := range paths {
		if strings.HasSuffix(path, ".expected.yaml") {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	return out
}

// fromGolden is the definition and the instance of a golden of the graph dialect.
func fromGolden(t *testing.T, a *golden.Archive) testCase {
	t.Helper()
	parse := func(text string) map[string]any {
		return testkit.Parse(t, "apiVersion: v1\nkind: Golden\n"+text)[0].Object
	}
	definition := parse(a.Input["definition.yaml"])
	kind, _, _ := unstructured.NestedString(definition, "spec", "schema", "kind")
	version, _, _ := unstructured.NestedString(definition, "spec", "schema", "apiVersion")
	group, has, _ := unstructured.NestedString(definition, "spec", "schema", "group")
	if !has {
		group = "kro.run"
	}
	instance, _ := parse(a.Input["world.yaml"])["instance"].(map[string]any)
	definition["apiVersion"], definition["kind"] = "kro.run/v1alpha1", "ResourceGraphDefinition"
	instance["apiVersion"], instance["kind"] = group+"/"+version, kind
	c := testCase{name: "golden-" + a.Name}
	for _, o := range []map[string]any{definition, instance} {
		u := &unstructured.Unstructured{Object: o}
		u.SetUID("")
		c.objects = append(c.objects, u)
	}
	return c
}

// isolate gives the kinds that a case defines a group, and its objects names and a namespace, that no other case has.
func (c testCase) isolate(t *testing.T, s suite.Suite, n int) (files, instances []simulation.Applied) {
	t.Helper()
	id, ns := fmt.Sprintf("c%d", n), testkit.Namespace(t, s.Config)
	group := id + "." + s.Group
	defined := map[schema.GroupKind]bool{}
	for _, o := range c.objects {
		for _, kind := range kindsOf(o) {
			defined[kind] = true
		}
	}
	for _, o := range c.objects {
		isInstance := defined[o.GroupVersionKind().GroupKind()]
		moveKinds(o.Object, defined, group)
		applied := simulation.Applied{Object: o, Source: c.name}
		switch {
		case o.GetKind() == "CompositeResourceDefinition":
			plural, _, _ := unstructured.NestedString(o.Object, "spec", "names", "plural")
			_ = unstructured.SetNestedField(o.Object, group, "spec", "group")
			o.SetName(plural + "." + group)
		case isDefinition(o):
			if fields, ok, _ := unstructured.NestedMap(o.Object, "spec", "schema"); ok {
				fields["group"] = group
				_ = unstructured.SetNestedMap(o.Object, fields, "spec", "schema")
			}
			o.SetName(id + "-" + o.GetName())
		case isInstance:
			o.SetName(id + "-" + o.GetName())
			o.SetNamespace(ns)
			instances = append(instances, applied)
			continue
		case o.GetKind() != "CustomResourceDefinition":
			o.SetNamespace(ns)
		}
		files = append(files, applied)
	}
	return files, instances
}

func isDefinition(o *unstructured.Unstructured) bool {
	return slices.Contains([]string{"ResourceGraphDefinition", "CompositeResourceDefinition", "Composition"}, o.GetKind())
}

// kindsOf are the kinds that a definition defines.
func kindsOf(o *unstructured.Unstructured) []schema.GroupKind {
	text := func(otherwise string, path ...string) string {
		if value, ok, _ := unstructured.NestedString(o.Object, path...); ok {
			return value
		}
		return otherwise
	}
	switch o.GetKind() {
	case "ResourceGraphDefinition":
		return []schema.GroupKind{{Group: text("kro.run", "spec", "schema", "group"), Kind: text("", "spec", "schema", "kind")}}
	case "CompositeResourceDefinition":
		group := text("", "spec", "group")
		return []schema.GroupKind{{Group: group, Kind: text("", "spec", "names", "kind")}, {Group: group, Kind: text("", "spec", "claimNames", "kind")}}
	}
	return nil
}

// moveKinds changes the group of the kinds wherever they are named.
func moveKinds(v any, kinds map[schema.GroupKind]bool, group string) {
	switch v := v.(type) {
	case map[string]any:
		apiVersion, _ := v["apiVersion"].(string)
		kind, _ := v["kind"].(string)
		if gvk := schema.FromAPIVersionAndKind(apiVersion, kind); kinds[gvk.GroupKind()] {
			v["apiVersion"] = group + "/" + gvk.Version
		}
		for _, below := range v {
			moveKinds(below, kinds, group)
		}
	case []any:
		for _, item := range v {
			moveKinds(item, kinds, group)
		}
	}
}
