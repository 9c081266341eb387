package kind_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/conversion"
	"github.com/espalier-dev/espalier/internal/graph/kind"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/serving/install"
)

// also gives a kind a further version.
func also(v graph.Version) func(*graph.Graph) {
	return func(g *graph.Graph) { g.Versions = append(g.Versions, v) }
}

// hub makes a version that the graph is written in.
func hub(name string) func(*graph.Graph) {
	return func(g *graph.Graph) { g.Kind.Version = name }
}

func TestVersionsAreRankedAsTheAPIServerDoes(t *testing.T) {
	text := props{"a": {Type: "string"}}
	c := of(text, props{"uid": {Type: "string"}}, hub("v1beta1"),
		also(graph.Version{Name: "v1alpha1", Spec: objectOf(text), Served: true, Identical: true}),
		also(graph.Version{Name: "v2", Spec: objectOf(props{"b": {Type: "string"}}), Deprecated: true, Warning: "soon", Columns: []column{{Name: "B"}}}))
	var got []string
	for _, v := range c.Spec.Versions {
		line := v.Name
		for _, trait := range []struct {
			holds bool
			word  string
		}{{v.Served, "served"}, {v.Storage, "stored"}, {v.Deprecated, "deprecated"}, {v.DeprecationWarning != nil, "warned"}, {len(v.AdditionalPrinterColumns) == 1, "own columns"}} {
			if trait.holds {
				line += " " + trait.word
			}
		}
		got = append(got, line)
		if _, ok := v.Schema.OpenAPIV3Schema.Properties["status"].Properties["uid"]; !ok {
			t.Errorf("%s has another status", v.Name)
		}
	}
	if diff := cmp.Diff([]string{"v2 deprecated warned own columns", "v1beta1 served stored", "v1alpha1 served"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if crd.StorageVersion(c) != "v1beta1" || !kind.Converts(c) {
		t.Error("it is stored in v1beta1, and v2 is converted")
	}
	c.Status.StoredVersions = []string{"v1alpha1", "v1beta1"}
	if diff := cmp.Diff([]string{"v1alpha1"}, crd.OutdatedStoredVersions(c)); diff != "" {
		t.Errorf("outdated (-want +got):\n%s", diff)
	}
}

func TestIdenticalVersionsNeedNoConversion(t *testing.T) {
	text := props{"a": {Type: "string"}}
	c := of(text, nil, also(graph.Version{Name: "v1", Spec: objectOf(text), Identical: true}))
	if kind.Converts(c) || c.Spec.Conversion != nil {
		t.Error("it is converted")
	}
}

func TestConverterReadsTheRulesOfTheCRD(t *testing.T) {
	rules := conversion.Rules{To: map[string]any{"b": "${self.spec.a}"}, From: map[string]any{"a": "${self.spec.b}"}}
	c := of(props{"b": {Type: "string"}}, nil, hub("v1"), also(graph.Version{Name: "v1alpha1", Spec: objectOf(props{"a": {Type: "string"}}), Served: true, Rules: rules}))
	converter, err := kind.Converter(c)
	if err != nil {
		t.Fatal(err)
	}
	o, err := converter.Convert(map[string]any{"apiVersion": "kro.run/v1alpha1", "kind": "Vpc", "spec": map[string]any{"a": "x"}}, "v1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"apiVersion": "kro.run/v1", "kind": "Vpc", "spec": map[string]any{"b": "x"}}, o); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	c.Annotations["espalier.dev/conversions"] = "{"
	if _, err := kind.Converter(c); err == nil || !strings.Contains(err.Error(), "espalier.dev/conversions") {
		t.Errorf("it says %v", err)
	}
}

func TestTheEndpointNamesWhatIsConvertedBy(t *testing.T) {
	made := func(spec props) *apiextensionsv1.CustomResourceDefinition {
		return of(props{"b": {Type: "string"}}, nil, hub("v1"), also(graph.Version{Name: "v1alpha1", Spec: objectOf(spec)}))
	}
	port := int32(443)
	service := install.Endpoint{Service: &apiextensionsv1.ServiceReference{Namespace: "espalier", Name: "webhook", Port: &port}, CABundle: []byte("x")}
	a, b, other := made(nil), made(nil), made(props{"c": {Type: "string"}})
	install.SetConversion(a, install.Endpoint{URL: "https://127.0.0.1:8443", CABundle: []byte("x")})
	install.SetConversion(b, service)
	install.SetConversion(other, service)
	if install.ConversionDigest(a) == "" || install.ConversionDigest(a) != install.ConversionDigest(b) {
		t.Errorf("the same is %q at a URL and %q at a service", install.ConversionDigest(a), install.ConversionDigest(b))
	}
	if install.ConversionDigest(other) == install.ConversionDigest(b) {
		t.Error("what has another field is converted by the same")
	}
	if install.ConversionDigest(made(nil)) != "" {
		t.Error("nobody converts, and yet it is by something")
	}
	if want, got := "https://127.0.0.1:8443/conversions/vpcs.kro.run/"+install.ConversionDigest(a), *a.Spec.Conversion.Webhook.ClientConfig.URL; want != got {
		t.Errorf("want %s, got %s", want, got)
	}
	if service.Service.Path != nil {
		t.Error("the endpoint has changed")
	}
}

func TestBreakingComparesEveryVersion(t *testing.T) {
	text, number := apiextensionsv1.JSONSchemaProps{Type: "string"}, apiextensionsv1.JSONSchemaProps{Type: "integer"}
	old := func(spec props, served bool) func(*graph.Graph) {
		return also(graph.Version{Name: "v1alpha1", Spec: objectOf(spec), Served: served})
	}
	cases := map[string]struct {
		reason        string
		current, next *apiextensionsv1.CustomResourceDefinition
		want          []string
	}{
		"A field of a further version": {
			"manifests of that version set it",
			of(nil, nil, hub("v1"), old(props{"a": text}, true)), of(nil, nil, hub("v1"), old(props{"a": number}, true)),
			[]string{"spec.schema.versions.v1alpha1.spec.a"},
		},
		"A version that becomes the stored one": {
			"each is compared with what it was",
			of(props{"a": text}, props{"s": text}, hub("v1alpha1")), of(props{"b": number}, props{"s": text}, hub("v1"), old(props{"a": text}, true)), nil,
		},
		"A status is told once": {
			"it is the same in all versions",
			of(nil, props{"s": text}, hub("v1"), old(nil, true)), of(nil, props{"s": number}, hub("v1"), old(nil, true)),
			[]string{"spec.schema.status.s"},
		},
		"A version that goes while it is served": {
			"manifests name it",
			of(nil, nil, hub("v1"), old(nil, true)), of(nil, nil, hub("v1")), []string{"spec.schema.apiVersion"},
		},
		"A version that isn't served any more": {
			"the author says so, and may take it back",
			of(nil, nil, hub("v1"), old(nil, true)), of(nil, nil, hub("v1"), old(nil, false)), nil,
		},
		"A version that goes after that": {
			"nobody could use it",
			of(nil, nil, hub("v1"), old(nil, false)), of(nil, nil, hub("v1")), nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, change := range kind.Breaking(tc.current, tc.next) {
				got = append(got, string(change.Path))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
