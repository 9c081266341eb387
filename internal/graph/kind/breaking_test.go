package kind_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/espalier-dev/espalier/internal/graph"
	"github.com/espalier-dev/espalier/internal/graph/kind"
)

func TestBreaking(t *testing.T) {
	yes := true
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	number := apiextensionsv1.JSONSchemaProps{Type: "integer"}
	untyped := apiextensionsv1.JSONSchemaProps{XPreserveUnknownFields: &yes}
	nothing := func(*graph.Graph) {}
	cases := map[string]struct {
		reason        string
		current, next *apiextensionsv1.CustomResourceDefinition
		want          []string
	}{
		"The same breaks nobody": {
			"nothing has changed",
			of(props{"a": text}, props{"b": text}), of(props{"a": text}, props{"b": text}), nil,
		},
		"A further field breaks nobody": {
			"who doesn't set it is valid still",
			of(props{"a": text}, nil), of(props{"a": text, "b": text}, props{"c": text}), nil,
		},
		"A field that goes breaks those who set it": {
			"their data would be dropped",
			of(props{"a": text, "b": text}, nil), of(props{"a": text}, nil), []string{"spec.schema.spec.b"},
		},
		"A field of another type breaks those who set it": {
			"they would be refused",
			of(props{"a": text}, nil), of(props{"a": number}, nil), []string{"spec.schema.spec.a"},
		},
		"A status field that goes breaks its readers": {
			"other definitions may wait for it",
			of(nil, props{"a": text}), of(nil, nil), []string{"spec.schema.status.a"},
		},
		"A status field that changes its type breaks its readers": {
			"expressions were checked against the old one",
			of(nil, props{"a": text}), of(nil, props{"a": number}), []string{"spec.schema.status.a"},
		},
		"A status field that becomes typed breaks nobody": {
			"it was untyped only while the kind that it is read from was missing",
			of(nil, props{"a": untyped, "n": *objectOf(props{"b": untyped}), "l": list(untyped)}),
			of(nil, props{"a": text, "n": *objectOf(props{"b": number}), "l": list(text)}), nil,
		},
		"A status field that is no longer typed breaks nobody": {
			"the kind that it is read from has gone, and comes back",
			of(nil, props{"a": text, "n": *objectOf(props{"b": number}), "l": list(text)}),
			of(nil, props{"a": untyped, "n": *objectOf(props{"b": untyped}), "l": list(untyped)}), nil,
		},
		"Every problem is told": {
			"an author wants to know them all",
			of(props{"a": text}, props{"b": text}), of(props{"a": number}, nil), []string{"spec.schema.spec.a", "spec.schema.status.b"},
		},
		"Another scope breaks all": {
			"no object survives it",
			of(nil, nil), of(nil, nil, func(g *graph.Graph) { g.Namespaced = false }), []string{"spec.schema.scope"},
		},
		"A version that goes breaks those who use it": {
			"manifests name it",
			of(nil, nil, nothing), of(nil, nil, func(g *graph.Graph) { g.Kind.Version = "v1" }), []string{"spec.schema.apiVersion"},
		},
		"A version that nobody could use may go": {
			"it was not served",
			func() *apiextensionsv1.CustomResourceDefinition {
				c := of(nil, nil)
				c.Spec.Versions[0].Served = false
				return c
			}(), of(nil, nil, func(g *graph.Graph) { g.Kind.Version = "v1" }), nil,
		},
		"A scale subresource that goes breaks autoscalers": {
			"they would stop without a word",
			of(nil, nil, scaledBy(".spec.replicas")), of(nil, nil), []string{"spec.schema.spec"},
		},
		"A scale subresource may come, or have another field": {
			"an autoscaler sees no difference",
			of(nil, nil, scaledBy(".spec.replicas")), of(nil, nil, scaledBy(".spec.size")), nil,
		},
		"A version without a schema promises nothing": {
			"there is nothing to compare",
			func() *apiextensionsv1.CustomResourceDefinition {
				c := of(nil, nil)
				c.Spec.Versions[0].Schema = nil
				return c
			}(), of(props{"a": text}, nil), nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := []*apiextensionsv1.CustomResourceDefinition{tc.current.DeepCopy(), tc.next.DeepCopy()}
			var got []string
			for _, change := range kind.Breaking(tc.current, tc.next) {
				if !change.Breaking || change.Description == "" {
					t.Errorf("%v breaks nothing or says nothing", change)
				}
				got = append(got, string(change.Path))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(before, []*apiextensionsv1.CustomResourceDefinition{tc.current, tc.next}); diff != "" {
				t.Errorf("what is compared has changed:\n%s", diff)
			}
		})
	}
}

func TestMissingFields(t *testing.T) {
	text, number := apiextensionsv1.JSONSchemaProps{Type: "string"}, apiextensionsv1.JSONSchemaProps{Type: "integer"}
	less, more, other := of(props{"a": text}, props{"s": text}), of(props{"a": text, "b": text}, props{"s": text, "t": text}), of(props{"a": number}, nil)
	cases := map[string]struct {
		reason        string
		current, side *apiextensionsv1.CustomResourceDefinition
		want          bool
	}{
		"The same":                 {"nothing is lost", less, less, true},
		"One with fewer fields":    {"what it has, there is room for", more, less, true},
		"Not one with more fields": {"they would be dropped", less, more, false},
		"Not one of another type":  {"it would be refused", less, other, false},
	}
	for name, tc := range cases {
		if got := len(kind.MissingFields(tc.current, tc.side)) == 0; got != tc.want {
			t.Errorf("%s: %s: got %t", name, tc.reason, got)
		}
	}
	less.Labels = map[string]string{"of": "this incarnation"}
	kept := kind.WithVersionsOf(less, more)
	if len(kind.Breaking(more, kept)) > 0 || kept.Labels["of"] != "this incarnation" || len(kind.MissingFields(kept, less)) > 0 {
		t.Errorf("it has less room than before: %v", kind.Breaking(more, kept))
	}
	served := func(c *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
		c = c.DeepCopy()
		c.Spec.Versions = append(c.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v9", Served: true})
		c.Annotations = map[string]string{"espalier.dev/conversions": "{}"}
		return c
	}
	if lost := kind.Breaking(served(more), kind.WithVersionsOf(less, served(more))); len(lost) > 0 {
		t.Errorf("somebody reads it in a version that goes: %v", lost)
	}
	if !kind.Converts(kind.WithVersionsOf(less, served(more))) || kind.Converts(kind.WithVersionsOf(served(less), more)) {
		t.Error("versions are converted as they are kept")
	}
	if lacking := kind.MissingFields(more, served(less)); len(lacking) > 0 {
		t.Errorf("instances are stored in another version: %v", lacking)
	}
	if len(less.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties) != 1 {
		t.Error("what was wanted has changed")
	}
}

func scaledBy(path string) func(*graph.Graph) {
	return func(g *graph.Graph) {
		g.Scale = map[string]apiextensionsv1.CustomResourceSubresourceScale{g.Kind.Version: {SpecReplicasPath: path, StatusReplicasPath: ".status.replicas"}}
	}
}
