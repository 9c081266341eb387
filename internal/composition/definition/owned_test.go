package definition

import (
	"testing"

	extv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOtherOwner(t *testing.T) {
	controlled := func(apiVersion, kind, name string) func(*extv1.CustomResourceDefinition) {
		return func(c *extv1.CustomResourceDefinition) {
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: new(true)}}
		}
	}
	cases := map[string]struct {
		reason string
		change func(*extv1.CustomResourceDefinition)
		want   string
	}{
		"Its own": {"it controls it", controlled("apiextensions.crossplane.io/v1", "CompositeResourceDefinition", "apps.example.org"), ""},
		"One that it controls in another version": {"it is the same definition", controlled("apiextensions.crossplane.io/v2", "CompositeResourceDefinition", "apps.example.org"), ""},
		"Another definition's":                    {"it controls it", controlled("apiextensions.crossplane.io/v1", "CompositeResourceDefinition", "others.example.org"), "is controlled by CompositeResourceDefinition others.example.org"},
		"One of a definition of another group":    {"its group is another", controlled("example.org/v1", "CompositeResourceDefinition", "apps.example.org"), "is controlled by CompositeResourceDefinition apps.example.org"},
		"One that an operator controls":           {"it is the operator's", controlled("apps/v1", "Deployment", "operator"), "is controlled by Deployment operator"},
		"One that a definition orphaned":          {"its categories say so", func(c *extv1.CustomResourceDefinition) { c.Spec.Names.Categories = []string{"all", "claim"} }, ""},
		"One that a user has created":             {"nothing marks it as one of a definition", func(*extv1.CustomResourceDefinition) {}, "exists already and is not from a definition"},
		"One of the control plane's": {"this program has installed it", func(c *extv1.CustomResourceDefinition) {
			c.Annotations = map[string]string{"espalier.dev/applied": "x"}
		}, "is part of the control plane"},
		"That of a graph definition": {"its labels say so", func(c *extv1.CustomResourceDefinition) {
			c.Labels = map[string]string{"kro.run/owned": "true", "kro.run/resource-graph-definition-name": "web"}
		}, "belongs to ResourceGraphDefinition web"},
		"That of a graph definition in a namespace": {"its labels say so", func(c *extv1.CustomResourceDefinition) {
			c.Labels = map[string]string{"kro.run/owned": "true", "kro.run/resource-graph-definition-name": "web", "kro.run/resource-graph-definition-namespace": "prod"}
		}, "belongs to ResourceGroup prod/web"},
	}
	for name, tc := range cases {
		c := &extv1.CustomResourceDefinition{}
		tc.change(c)
		if got := otherOwner(c, "apps.example.org"); got != tc.want {
			t.Errorf("%s: want %q, got %q, but %s", name, tc.want, got, tc.reason)
		}
	}
}

func TestWorkingVersion(t *testing.T) {
	type v = extv1.CustomResourceDefinitionVersion
	cases := map[string]struct {
		versions []v
		want     string
	}{
		"The one that objects are stored in": {[]v{{Name: "v1", Served: true}, {Name: "v2", Served: true, Storage: true}}, "v2"},
		"Another, if that isn't served":      {[]v{{Name: "v1", Served: true}, {Name: "v2", Storage: true}, {Name: "v3", Served: true}}, "v1"},
		"None, if none is":                   {[]v{{Name: "v1", Storage: true}}, ""},
	}
	for name, tc := range cases {
		c := &extv1.CustomResourceDefinition{}
		c.Spec.Versions = tc.versions
		if got, served := workingVersion(c); got.Version != tc.want || served != (tc.want != "") {
			t.Errorf("%s: want %q, got %q", name, tc.want, got.Version)
		}
	}
}
