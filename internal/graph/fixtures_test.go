package graph_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/kube/crd"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/object"
)

// commonKinds reads the kinds that all tests know, with those of further
// documents added: CustomResourceDefinitions, by which a definition's own kinds
// are marked as they are in a cluster.
func commonKinds(t testing.TB, more string) graph.Kinds {
	t.Helper()
	common, err := os.ReadFile("testdata/kinds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	known := graph.Kinds{}
	for _, doc := range append(documents(t, string(common)), documents(t, more)...) {
		var c apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict([]byte(doc), &c); err != nil {
			t.Fatal(err)
		}
		for _, v := range c.Spec.Versions {
			gvk := schema.GroupVersionKind{Group: c.Spec.Group, Version: v.Name, Kind: c.Spec.Names.Kind}
			known[gvk] = object.KindInfo{
				Schema:             crd.OpenAPI(v.Schema.OpenAPIV3Schema),
				Namespaced:         c.Spec.Scope == apiextensionsv1.NamespaceScoped,
				ServedByDefinition: c.Labels[v1alpha1.OwnedLabel] == "true",
				NameRule:           namesOf(gvk),
			}
		}
	}
	return known
}

// namesOf is the rule that a cluster would tell: kinds without a domain are built in.
func namesOf(gvk schema.GroupVersionKind) object.NameRule {
	if strings.Contains(gvk.Group, ".") {
		return object.Subdomain
	}
	return object.BuiltInNameRule(gvk.GroupKind())
}

// documents splits a YAML stream; documents without content are left out.
func documents(t testing.TB, text string) []string {
	t.Helper()
	var out []string
	r := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(doc)) != "" {
			out = append(out, string(doc))
		}
	}
}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

func definition(t testing.TB, text string) *v1alpha1.ResourceGraphDefinition {
	t.Helper()
	var d v1alpha1.ResourceGraphDefinition
	decode(t, text, &d)
	return &d
}
