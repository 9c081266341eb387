package apiextensions_test

import (
	"io/fs"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/apiextensions"
)

func kind(t *testing.T, file string) *extv1.CustomResourceDefinition {
	t.Helper()
	raw, err := fs.ReadFile(apiextensions.CRDs, "crds/"+file)
	if err != nil {
		t.Fatal(err)
	}
	out := &extv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(raw, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDefinitionsNeedNoConversion: the API server turns a definition of one version into
// one of the other by changing apiVersion alone, which loses nothing if both have the
// same fields of the same types.
func TestDefinitionsNeedNoConversion(t *testing.T) {
	c := kind(t, "apiextensions.crossplane.io_compositeresourcedefinitions.yaml")
	if c.Spec.Conversion != nil && c.Spec.Conversion.Strategy != extv1.NoneConverter {
		t.Errorf("a webhook is called: %+v", c.Spec.Conversion)
	}
	versions := map[string]extv1.CustomResourceDefinitionVersion{}
	for _, v := range c.Spec.Versions {
		versions[v.Name] = v
	}
	v1, v2 := versions["v1"], versions["v2"]
	if !v1.Served || !v1.Storage || !v2.Served || v2.Storage {
		t.Error("both are served, and v1 is stored")
	}
	one, other := shape(v1.Schema.OpenAPIV3Schema, ""), shape(v2.Schema.OpenAPIV3Schema, "")
	if diff := cmp.Diff(one, other); diff != "" {
		t.Errorf("(-v1 +v2):\n%s", diff)
	}
}

// shape lists the fields of a schema with their types.
func shape(s *extv1.JSONSchemaProps, at string) []string {
	out := []string{at + " " + s.Type}
	for name, field := range s.Properties {
		out = append(out, shape(&field, at+"."+name)...)
	}
	if s.Items != nil {
		out = append(out, shape(s.Items.Schema, at+"[]")...)
	}
	if s.AdditionalProperties != nil {
		out = append(out, shape(s.AdditionalProperties.Schema, at+"{}")...)
	}
	slices.Sort(out)
	return out
}

// TestOlderVersionsNeedNoConversion: what people have written as v1alpha1 is served as it
// is, and stored as v1beta1.
func TestOlderVersionsNeedNoConversion(t *testing.T) {
	for _, file := range []string{"apiextensions.crossplane.io_usages.yaml", "apiextensions.crossplane.io_environmentconfigs.yaml"} {
		c := kind(t, file)
		shapes := map[string][]string{}
		for _, v := range c.Spec.Versions {
			if !v.Served || v.Storage != (v.Name == "v1beta1") {
				t.Errorf("%s: %s: served %t, stored %t", file, v.Name, v.Served, v.Storage)
			}
			shapes[v.Name] = shape(v.Schema.OpenAPIV3Schema, "")
		}
		if diff := cmp.Diff(shapes["v1alpha1"], shapes["v1beta1"]); diff != "" {
			t.Errorf("%s (-v1alpha1 +v1beta1):\n%s", file, diff)
		}
	}
}

// TestNames are those that people and programs find the kinds by.
func TestNames(t *testing.T) {
	for file, want := range map[string]extv1.CustomResourceDefinitionNames{
		"apiextensions.crossplane.io_compositeresourcedefinitions.yaml": {
			Kind: "CompositeResourceDefinition", ListKind: "CompositeResourceDefinitionList", Plural: "compositeresourcedefinitions",
			Singular: "compositeresourcedefinition", ShortNames: []string{"xrd", "xrds"}, Categories: []string{"crossplane"},
		},
		"apiextensions.crossplane.io_compositions.yaml": {
			Kind: "Composition", ListKind: "CompositionList", Plural: "compositions", Singular: "composition",
			ShortNames: []string{"comp"}, Categories: []string{"crossplane"},
		},
		"apiextensions.crossplane.io_compositionrevisions.yaml": {
			Kind: "CompositionRevision", ListKind: "CompositionRevisionList", Plural: "compositionrevisions", Singular: "compositionrevision",
			ShortNames: []string{"comprev"}, Categories: []string{"crossplane"},
		},
		"apiextensions.crossplane.io_environmentconfigs.yaml": {
			Kind: "EnvironmentConfig", ListKind: "EnvironmentConfigList", Plural: "environmentconfigs", Singular: "environmentconfig",
			ShortNames: []string{"envcfg"}, Categories: []string{"crossplane"},
		},
		"apiextensions.crossplane.io_usages.yaml": {
			Kind: "Usage", ListKind: "UsageList", Plural: "usages", Singular: "usage", Categories: []string{"crossplane"},
		},
	} {
		c := kind(t, file)
		if diff := cmp.Diff(want, c.Spec.Names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		if c.Spec.Scope != extv1.ClusterScoped {
			t.Errorf("%s is %s", file, c.Spec.Scope)
		}
	}
}
