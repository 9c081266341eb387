package server

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/instance/usage"
	"github.com/espalier-dev/espalier/internal/testkit/fakekube"
)

func definitionOf(kind schema.GroupVersionKind, ours bool) *apiextensionsv1.CustomResourceDefinition {
	c := &apiextensionsv1.CustomResourceDefinition{}
	c.Spec.Group, c.Spec.Names.Kind = kind.Group, kind.Kind
	if ours {
		c.Annotations = map[string]string{v1alpha1.AppliedAnnotation: "x"}
	}
	return c
}

func TestKindsOfUsagesAreServedOnceTheyExist(t *testing.T) {
	first, second := usage.Kinds[0], usage.Kinds[1]
	cases := map[string]struct {
		reason string
		// exist are the kinds that there are at first, come those that come then.
		exist, come []*apiextensionsv1.CustomResourceDefinition
		beside      bool
		want        []schema.GroupVersionKind
	}{
		"there are none":              {"nothing is watched", nil, nil, false, nil},
		"there is one":                {"it is served from the beginning", []*apiextensionsv1.CustomResourceDefinition{definitionOf(first, true)}, nil, false, []schema.GroupVersionKind{first}},
		"one comes":                   {"it is served from then on", nil, []*apiextensionsv1.CustomResourceDefinition{definitionOf(second, true)}, false, []schema.GroupVersionKind{second}},
		"one changes":                 {"it is served once", []*apiextensionsv1.CustomResourceDefinition{definitionOf(first, true)}, []*apiextensionsv1.CustomResourceDefinition{definitionOf(first, true)}, false, []schema.GroupVersionKind{first}},
		"another program has one":     {"that may be serving it", []*apiextensionsv1.CustomResourceDefinition{definitionOf(first, false)}, []*apiextensionsv1.CustomResourceDefinition{definitionOf(second, false)}, false, nil},
		"another program is replaced": {"its dialect is served beside it", []*apiextensionsv1.CustomResourceDefinition{definitionOf(first, false)}, nil, true, []schema.GroupVersionKind{first}},
		"another kind comes":          {"it isn't one of usages", nil, []*apiextensionsv1.CustomResourceDefinition{definitionOf(schema.GroupVersionKind{Group: "example.org", Kind: "App"}, true)}, false, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := fakekube.New()
			for _, d := range tc.exist {
				c.Kinds[schema.GroupKind{Group: d.Spec.Group, Kind: d.Spec.Names.Kind}] = fakekube.Kind{CRD: d}
			}
			var got []schema.GroupVersionKind
			u := &usages{
				crds: c, start: func(kind schema.GroupVersionKind) { got = append(got, kind) },
				servesForeign: func() bool { return tc.beside }, served: map[schema.GroupVersionKind]bool{},
			}
			for _, d := range tc.exist {
				u.crdChanged(d)
			}
			if len(got) > 0 {
				t.Errorf("before startServing, %v are served", got)
			}
			u.startServing()
			for _, d := range tc.come {
				u.crdChanged(d)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
