// Command generate adds to the generated CustomResourceDefinitions of definitions that some objects contain exactly
// one of several fields. No marker of controller-gen says it, and a rule in CEL does not see fields of any type.
package main

import (
	"log"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// exclusive lists paths in the schema of a spec, each with fields that exclude each other: exactly one is required.
type exclusive []struct{ path, fields []string }

var (
	definition = exclusive{
		{[]string{"resources", "items"}, []string{"template", "externalRef", "value"}},
		{[]string{"resources", "items", "properties", "externalRef", "properties", "metadata"}, []string{"name", "selector"}},
	}
	graph = exclusive{
		{[]string{"nodes", "items"}, []string{"template", "ref", "def", "patch", "graph"}},
		{[]string{"nodes", "items", "properties", "ref", "properties", "metadata"}, []string{"name", "selector"}},
	}
)

func main() {
	for file, rules := range map[string]exclusive{
		"crds/kro.run_resourcegraphdefinitions.yaml": definition, "crds/kro.run_resourcegroups.yaml": definition, "crds/kro.run_graphs.yaml": graph,
	} {
		if err := complete(file, rules); err != nil {
			log.Fatalf("%s: %v", file, err)
		}
	}
}

func complete(file string, rules exclusive) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		return err
	}
	versions, _, err := unstructured.NestedSlice(crd, "spec", "versions")
	if err != nil {
		return err
	}
	for _, version := range versions {
		for _, e := range rules {
			var one []any
			for _, field := range e.fields {
				one = append(one, map[string]any{"required": []any{field}})
			}
			at := append([]string{"schema", "openAPIV3Schema", "properties", "spec", "properties"}, e.path...)
			if err := unstructured.SetNestedSlice(version.(map[string]any), one, append(at, "oneOf")...); err != nil {
				return err
			}
		}
	}
	if err := unstructured.SetNestedSlice(crd, versions, "spec", "versions"); err != nil {
		return err
	}
	out, err := yaml.Marshal(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(file, append([]byte("---\n"), out...), 0o644)
}
